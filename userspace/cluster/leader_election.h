// SPDX-License-Identifier: Apache-2.0
// Leadership by a Lease (coordination.k8s.io/v1), by the rules of client-go's leaderelection, so
// that it also excludes a descheduler that uses the same Lease. A state machine without I/O.
//
// Never two leaders: this one leads for `renew` after it began to send its last accepted change.
// Another candidate waits for `lease`, which is longer, after it has seen that change. Both count
// on their own clock, which also runs while the host is suspended (BoottimeClock).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "cluster/request_source.h"
#include "kubernetes/backoff.h"

namespace forestall::cluster {

struct LeaseOptions {
  std::string lease_namespace = "kube-system";
  std::string name = "descheduler";
  std::string identity;  // of this process, unique
  // REQUIRES: lease > renew > retry > 0.
  Duration lease = std::chrono::seconds(137);
  Duration renew = std::chrono::seconds(107);
  Duration retry = std::chrono::seconds(26);
};

class LeaderElection final : public RequestSource {
 public:
  // `wall`: microseconds of the wall clock, for people. `chance` returns numbers in [0, 1).
  LeaderElection(LeaseOptions options, std::function<std::int64_t()> wall,
                 std::function<double()> chance)
      : options_(std::move(options)), wall_(std::move(wall)), chance_(std::move(chance)) {}

  [[nodiscard]] std::optional<KeyedRequest> next(MonotonicTime now) override;
  void answered(std::string_view key, const kubernetes::ResponseHead& head, std::string_view body,
                const std::optional<Error>& failure, MonotonicTime now) override;
  [[nodiscard]] std::optional<MonotonicTime> due() const override;

  [[nodiscard]] bool leads(MonotonicTime now) const { return leads_until_ && now < *leads_until_; }
  // When leads() becomes false without a renewal; nothing: it is false.
  [[nodiscard]] std::optional<MonotonicTime> leads_until() const { return leads_until_; }
  // Gives the leadership up, so that another candidate need not wait. No other change afterwards.
  void release(MonotonicTime now);
  // The end of the leadership is enough: an API server that does not answer delays no process.
  [[nodiscard]] bool released(MonotonicTime now) const { return releases_ && !leads(now); }
  // As last read; empty: no process, or not read yet.
  [[nodiscard]] const std::string& holder() const { return seen_.holder; }
  // Why the last request had no success; empty: it had.
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  enum class LeaseStep : std::uint8_t { read, write };
  struct SeenLease {
    std::string version;  // empty: there is none
    std::string holder;
    std::string acquired;
    std::string renewed;
    std::int64_t seconds = 0;
    std::int64_t transitions = 0;

    // Whether the rest of the object alone may differ.
    [[nodiscard]] bool has_record_of(const SeenLease& other) const;
  };

  void read(std::string_view body, MonotonicTime now);
  [[nodiscard]] static Result<SeenLease> parse(std::string_view body);
  void decide(MonotonicTime now);
  void written(MonotonicTime now);
  void fail(std::string problem, MonotonicTime now);
  [[nodiscard]] std::string target() const;
  [[nodiscard]] std::string lease_body() const;

  const LeaseOptions options_;
  const std::function<std::int64_t()> wall_;
  const std::function<double()> chance_;
  LeaseStep step_ = LeaseStep::read;
  bool sent_ = false;
  bool releases_ = false;
  bool sent_release_ = false;  // the request under way is the release
  MonotonicTime not_before_{};
  MonotonicTime begun_{};  // of the request under way
  SeenLease seen_;
  MonotonicTime seen_at_{};  // when its record last changed
  std::optional<MonotonicTime> leads_until_;
  kubernetes::Backoff backoff_;
  std::string problem_;
};

}  // namespace forestall::cluster
