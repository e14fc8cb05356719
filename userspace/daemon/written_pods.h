// SPDX-License-Identifier: Apache-2.0
// The pods that another process writes by UpdatePods: `forestall cluster`, which watches the API
// server. What was written stays in force when the writer is gone, and the status reports how old
// it is; facts of pods that are not on the list are inferred.
//
// The writer has the network, and may be under the control of an attacker. So it can exhaust no
// memory, and it can start no eviction: amounts of disk that a pod may use are not taken from it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/priority_mutex.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "daemon/pod_list_watch.h"
#include "exports/log.h"
#include "service/agent_service.h"

namespace forestall::daemon {

struct WrittenPodsState {
  std::size_t pods = 0;                    // in force
  std::optional<MonotonicTime> confirmed;  // by the API server; nothing: unknown
  MonotonicTime written{};                 // the last call
  std::string problem;                     // the writer's; empty: the pods are current
};

// Thread rule: update() from the server's thread, take() and in_force() from the loop's.
class WrittenPods final : public service::PodReceiver {
 public:
  // As for a podList: a hundred times kubelet's default for a node.
  static constexpr std::size_t kPodsMax = 11'000;
  // Containers, init containers, volumes, tolerations of one pod, each.
  static constexpr std::size_t kPartsMax = 256;
  // What all pods take here.
  static constexpr std::size_t kMemoryMax = std::size_t{64} << 20;
  // A writer that was replaced becomes the writer again if the later one was silent for so long.
  static constexpr Duration kSilence = std::chrono::seconds(30);

  // `log` and `clock` outlive this.
  static Result<std::unique_ptr<WrittenPods>> create(const Clock& clock, exports::Log& log);

  [[nodiscard]] Result<std::size_t> update(const v1::UpdatePodsRequest& request) override;
  // Polls readable when pods wait for take().
  [[nodiscard]] int fd() const { return ready_.get(); }
  // The pods to use from now on; nothing: they did not change.
  [[nodiscard]] std::optional<KnownPods> take();
  // The pods as last taken; nothing: no list was complete, and the podList is in force.
  [[nodiscard]] const std::optional<KnownPods>& in_force() const { return taken_; }
  // Any thread. Nothing: no list was complete.
  [[nodiscard]] std::optional<WrittenPodsState> state() const;

 private:
  struct WrittenPod {
    std::shared_ptr<const Pod> facts;
    std::size_t memory = 0;
  };
  using ByUid = std::map<std::string, WrittenPod, std::less<>>;
  struct PodsByUid {
    ByUid by_uid;
    std::size_t memory = 0;
  };

  WrittenPods(const Clock& clock, exports::Log& log, UniqueFd ready)
      : clock_(clock), log_(log), ready_(std::move(ready)) {}
  [[nodiscard]] Result<void> check(const v1::UpdatePodsRequest& request,
                                   const KnownPods& pods) const;
  [[nodiscard]] bool was_replaced(std::uint64_t writer) const;
  void replace_writer(std::uint64_t writer);
  // Whether the pods in force changed.
  bool apply(const v1::UpdatePodsRequest& request, const KnownPods& pods);
  void note(const v1::UpdatePodsRequest& request);
  void offer();

  const Clock& clock_;
  exports::Log& log_;
  const UniqueFd ready_;
  // The server's thread.
  std::optional<std::uint64_t> writer_;  // of `listed_` and `pods_`
  std::deque<std::uint64_t> replaced_;   // writers that a later one has replaced
  MonotonicTime last_call_{};            // of `writer_`
  std::optional<PodsByUid> listed_;      // a list that is not complete
  PodsByUid pods_;
  // The loop's thread.
  std::optional<KnownPods> taken_;

  mutable base::PriorityMutex mutex_;
  std::optional<KnownPods> waiting_;
  std::optional<WrittenPodsState> state_;
};

}  // namespace forestall::daemon
