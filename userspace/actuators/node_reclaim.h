// SPDX-License-Identifier: Apache-2.0
// Node-level reclaim, the step before any pod has to go (kubelet.md §4): dead containers and unused
// images are removed through the container runtime, by a thread of its own, because a runtime takes
// seconds for what the loop must not wait for.
//
// One job at a time. The loop starts it, goes on, and is told by an eventfd when it is over. The
// two sides share one word of state: no lock that a preempted thread of ordinary priority could
// hold against a loop that runs at real time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "clients/runtime.h"
#include "model/eviction.h"

namespace forestall::actuators {

struct NodeReclaimResult {
  std::vector<ReclaimStep> steps;            // as they were asked for, in order
  std::optional<clients::DeadRemoval> dead;  // nothing: not asked for, or failed as a whole
  std::optional<clients::ImageRemoval> images;
  std::vector<Error> failures;  // of whole steps; those of single objects are in the two above
  MonotonicTime began;
  Duration took{0};

  friend bool operator==(const NodeReclaimResult&, const NodeReclaimResult&) = default;
};

// Thread rule: every call from one thread, the loop's; none of them waits but the destructor.
class NodeReclaim {
 public:
  // Makes the runtime a job works with; called on the job's thread, once for each job. Whoever
  // makes it hands `cancel_fd` on (RuntimeOptions::cancel_fd).
  using Connect = std::function<Result<std::unique_ptr<clients::ContainerRuntime>>(int cancel_fd)>;

  static Result<std::unique_ptr<NodeReclaim>> create(Connect connect);
  // With the runtime at `endpoint`; options.cancel_fd is filled in here. An error when no endpoint
  // can read so; whether anybody listens there shows in the results.
  static Result<std::unique_ptr<NodeReclaim>> create(std::string_view endpoint,
                                                     clients::RuntimeOptions options = {});
  NodeReclaim(const NodeReclaim&) = delete;
  NodeReclaim& operator=(const NodeReclaim&) = delete;
  // Calls off what is under way and waits for its thread: microseconds, or as long as connecting to
  // a runtime with a full backlog may take (RuntimeOptions::deadline).
  ~NodeReclaim();

  // Begins a job. False, and nothing is begun, while another is under way or its result was not
  // taken yet, and for no steps at all.
  [[nodiscard]] bool start(std::vector<ReclaimStep> steps);
  [[nodiscard]] bool running() const { return state_.load() == State::running; }
  // Polls readable from the end of a job until its result is taken.
  [[nodiscard]] int fd() const { return done_.get(); }
  // The result of the job that is over; nothing when there is none.
  [[nodiscard]] std::optional<NodeReclaimResult> take();

 private:
  enum class State : std::uint8_t { idle, running, over };

  NodeReclaim(Connect connect, UniqueFd started, UniqueFd stop, UniqueFd done);
  void start_thread();
  void serve();
  [[nodiscard]] NodeReclaimResult run(std::vector<ReclaimStep> steps) const;

  const Connect connect_;
  const UniqueFd started_;  // eventfd: a job waits
  const UniqueFd stop_;     // eventfd, readable from the destructor on
  const UniqueFd done_;     // eventfd: a result waits
  // Who may touch the two below: the loop in idle and over, the thread in running.
  std::atomic<State> state_{State::idle};
  std::vector<ReclaimStep> steps_;
  NodeReclaimResult result_;
  std::thread thread_;  // last: serve() uses all of the above
};

}  // namespace forestall::actuators
