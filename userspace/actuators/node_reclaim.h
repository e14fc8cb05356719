// SPDX-License-Identifier: Apache-2.0
// Node-level reclaim, the step before any pod is evicted (pkg/kubelet/eviction
// reclaimNodeLevelResources): the container runtime removes dead containers and unused images. This
// runs on a thread of its own, because a runtime takes seconds and the loop must not wait. One job
// at a time: the loop starts it, continues, and a descriptor signals its end.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/job_thread.h"
#include "base/result.h"
#include "clients/runtime.h"
#include "model/eviction.h"

namespace forestall::actuators {

struct NodeReclaimResult {
  std::vector<ReclaimStep> steps;            // as requested, in order
  std::optional<clients::DeadRemoval> dead;  // nullopt: not requested, or failed as a whole
  std::optional<clients::ImageRemoval> images;
  std::vector<Error> failures;  // of whole steps; those of single objects are in the two above
  MonotonicTime began;
  Duration took{0};

  friend bool operator==(const NodeReclaimResult&, const NodeReclaimResult&) = default;
};

// Thread rule: all calls come from one thread, the loop's. Only the destructor waits.
class NodeReclaim {
 public:
  // Creates the runtime client of a job; called on the job's thread, once per job. It must pass
  // `cancel_fd` on (RuntimeOptions::cancel_fd).
  using Connect = std::function<Result<std::unique_ptr<clients::ContainerRuntime>>(int cancel_fd)>;

  static Result<std::unique_ptr<NodeReclaim>> create(Connect connect);
  // Uses the runtime at `endpoint`; fills in options.cancel_fd. Fails if the endpoint is malformed.
  // A missing server shows in the results.
  static Result<std::unique_ptr<NodeReclaim>> create(std::string_view endpoint,
                                                     clients::RuntimeOptions options = {});
  NodeReclaim(const NodeReclaim&) = delete;
  NodeReclaim& operator=(const NodeReclaim&) = delete;
  // Cancels a running job and waits for its thread: microseconds, or as long as connecting to a
  // runtime with a full backlog may take (RuntimeOptions::deadline).
  ~NodeReclaim() = default;

  // Starts a job. False, without effect, if another job is running or its result was not taken yet,
  // or if `steps` is empty.
  [[nodiscard]] bool start(std::vector<ReclaimStep> steps);
  [[nodiscard]] bool running() const { return thread_->running(); }
  // Polls readable from the end of a job until its result is taken.
  [[nodiscard]] int fd() const { return thread_->fd(); }
  // The result of the finished job; nullopt if there is none.
  [[nodiscard]] std::optional<NodeReclaimResult> take();

 private:
  explicit NodeReclaim(Connect connect);
  void run();

  const Connect connect_;
  // Owned by the loop, and by the job while it runs.
  std::vector<ReclaimStep> steps_;
  NodeReclaimResult result_;
  std::unique_ptr<base::JobThread> thread_;  // last: run() uses all members above
};

}  // namespace forestall::actuators
