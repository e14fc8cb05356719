// SPDX-License-Identifier: Apache-2.0
// Node-level reclaim, the step before any pod has to go (kubelet.md §4): dead containers and unused
// images are removed through the container runtime, by a thread of its own, because a runtime takes
// seconds for what the loop must not wait for. One job at a time: the loop starts it, goes on, and
// is told by a descriptor when it is over.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "clients/runtime.h"
#include "kernel/job_thread.h"
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
  ~NodeReclaim() = default;

  // Begins a job. False, and nothing is begun, while another is under way or its result was not
  // taken yet, and for no steps at all.
  [[nodiscard]] bool start(std::vector<ReclaimStep> steps);
  [[nodiscard]] bool running() const { return thread_->running(); }
  // Polls readable from the end of a job until its result is taken.
  [[nodiscard]] int fd() const { return thread_->fd(); }
  // The result of the job that is over; nothing when there is none.
  [[nodiscard]] std::optional<NodeReclaimResult> take();

 private:
  explicit NodeReclaim(Connect connect);
  void run();

  const Connect connect_;
  // The loop's, but the job's while it runs.
  std::vector<ReclaimStep> steps_;
  NodeReclaimResult result_;
  std::unique_ptr<kernel::JobThread> thread_;  // last: run() uses all of the above
};

}  // namespace forestall::actuators
