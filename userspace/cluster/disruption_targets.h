// SPDX-License-Identifier: Apache-2.0
// Sets the condition DisruptionTarget of pods that were evicted, as the kubelet does (reason
// TerminationByKubelet): rules of Jobs for failed pods (podFailurePolicy) read it. A state machine
// without I/O.
//
// The request follows the eviction when the server has accepted it. A request beside it could make
// the eviction fail with a conflict, and the Eviction API sets the condition too, with a reason of
// its own that this one replaces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/result.h"
#include "cluster/evictions.h"
#include "cluster/request_source.h"
#include "kubernetes/backoff.h"

namespace forestall::cluster {

class DisruptionTargets final : public RequestSource {
 public:
  static constexpr std::size_t kMax = 64;
  // Requests at the same time.
  static constexpr std::size_t kRequestsMax = 4;
  // The pod's object is removed a few seconds after its processes have exited.
  static constexpr Duration kExpiresAfter = std::chrono::seconds(30);
  // The server may have been replaced by a later version.
  static constexpr Duration kVersionExpiresAfter = std::chrono::minutes(10);
  // The first version of Kubernetes that defines the condition by default: 1.26.
  static constexpr std::uint64_t kFirstMinor = 26;
  // The first version with the Eviction of policy/v1: 1.22.
  static constexpr std::uint64_t kEvictionV1Minor = 22;

  // `wall`: seconds of the wall clock. `chance` returns numbers in [0, 1).
  DisruptionTargets(std::function<std::int64_t()> wall, std::function<double()> chance)
      : wall_(std::move(wall)), chance_(std::move(chance)) {}

  // Its eviction was accepted, or it is being deleted already.
  void add(const KilledPod& pod, MonotonicTime now);
  // The first request is for the server's version.
  [[nodiscard]] std::optional<KeyedRequest> next(MonotonicTime now) override;
  void answered(std::string_view key, const kubernetes::ResponseHead& head, std::string_view body,
                const std::optional<Error>& failure, MonotonicTime now) override;
  [[nodiscard]] std::optional<MonotonicTime> due() const override;
  // Why the last request had no success; empty: it had.
  [[nodiscard]] const std::string& problem() const { return problem_; }
  // Whether the server has the Eviction of policy/v1, once for each answer about its version.
  [[nodiscard]] std::optional<bool> take_eviction_v1() {
    return std::exchange(eviction_v1_, std::nullopt);
  }

 private:
  struct Waiting {
    KilledPod pod;
    std::int64_t wall = 0;
    MonotonicTime expires{};
    MonotonicTime not_before{};
    kubernetes::Backoff backoff = {};
    bool sent = false;
  };

  [[nodiscard]] bool needs_version(MonotonicTime now) const;
  void answered_version(int code, std::string_view body, MonotonicTime now);
  void end(std::string_view uid);

  const std::function<std::int64_t()> wall_;
  const std::function<double()> chance_;
  std::deque<Waiting> waiting_;
  // Whether the server defines the condition, and since when that is known.
  std::optional<bool> is_defined_;
  std::optional<bool> eviction_v1_;
  MonotonicTime version_at_{};
  MonotonicTime version_not_before_{};
  kubernetes::Backoff version_backoff_;
  bool version_sent_ = false;
  std::string problem_;
};

}  // namespace forestall::cluster
