// SPDX-License-Identifier: Apache-2.0
// Reads the state of a cluster for a plan: lists, page by page, one request after the other. A
// state machine without I/O. All evictions name UIDs, so lists of slightly different times do no
// harm.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cluster/plan_evictions.h"
#include "cluster/request_source.h"
#include "descheduler/cluster_snapshot.h"
#include "kubernetes/backoff.h"
#include "rebalance/snapshot.h"

namespace forestall::cluster {

struct ListedKind {
  std::string path;
  std::string old_path = {};  // of servers without `path`; empty: none
  // The plan is made without it if the server has no such kind, or refuses its first page.
  bool optional = false;
};

// What the policy measures. `metrics`: of metrics.k8s.io; `reports`: NodeReports.
[[nodiscard]] std::vector<ListedKind> polled_kinds(bool node_metrics, bool pod_metrics,
                                                   bool reports);

class SnapshotLister final : public RequestSource {
 public:
  static constexpr int kPageSize = 500;
  // Of one page: an object has at most 1.5 MiB, and few have more than 20 KiB.
  static constexpr std::size_t kPageBytesMax = std::size_t{64} << 20;
  // Of all pages, which are larger than what is kept of them. With what informers keep, less than
  // the memory limit of the Deployment.
  static constexpr std::uint64_t kBytesMax = std::uint64_t{2} << 30;
  static constexpr int kPagesMax = 10'000;
  static constexpr int kAttemptsMax = 4;  // for one page
  // Of the first page of an optional kind: a metrics API that hangs leaves time for the others.
  static constexpr int kOptionalAttemptsMax = 2;
  static constexpr Duration kOptionalLongest = std::chrono::seconds(15);
  // Because the server no longer has the state of the first page.
  static constexpr int kRestartsMax = 2;
  // Of all lists since begun(): a plan of an older state is not carried out.
  static constexpr Duration kLongest = PlanEvictions::kPlanAgeMax;

  // `chance` returns numbers in [0, 1).
  explicit SnapshotLister(std::function<double()> chance) : chance_(std::move(chance)) {}

  // Begins, in place of lists that were not complete.
  void begin(std::vector<ListedKind> kinds, MonotonicTime now);
  void cancel();
  // Whether there is nothing to list (any more).
  [[nodiscard]] bool done() const { return kinds_.empty(); }
  // Why it ended without a snapshot; empty: it did not.
  [[nodiscard]] const std::string& failure() const { return failure_; }
  // Why optional kinds are not in the snapshot; empty: all are.
  [[nodiscard]] const std::string& left_out() const { return left_out_; }
  // Whether all of those are left out because the server does not have them, or does not permit
  // this client to read them.
  [[nodiscard]] bool left_out_for_good() const { return !left_out_.empty() && !may_come_back_; }
  // When the first request was due, since the last restart: nothing in the snapshot is older.
  [[nodiscard]] MonotonicTime begun() const { return begun_; }
  // REQUIRES: done(), without failure(); called once.
  [[nodiscard]] rebalance::Snapshot take(std::int64_t wall_ns);

  [[nodiscard]] std::optional<KeyedRequest> next(MonotonicTime now) override;
  void answered(std::string_view key, const kubernetes::ResponseHead& head, std::string_view body,
                const std::optional<Error>& failure, MonotonicTime now) override;
  [[nodiscard]] std::optional<MonotonicTime> due() const override;

 private:
  [[nodiscard]] Result<void> add_page(std::string_view body);
  void start(MonotonicTime now);
  void missing(const std::string& problem, int code);
  [[nodiscard]] bool may_be_left_out() const;
  void leave_out(const std::string& problem, bool may_come_back);
  void next_kind();
  void fail(const std::string& problem);

  const std::function<double()> chance_;
  std::vector<ListedKind> all_kinds_;
  std::vector<ListedKind> kinds_;  // those to list; the last one is listed now
  std::optional<descheduler::ClusterSnapshotReader> reader_;
  std::string continue_;
  bool old_ = false;  // the path of the kind that is listed now
  bool sent_ = false;
  int attempts_ = 0;
  int restarts_ = 0;
  int pages_ = 0;
  MonotonicTime begun_{};
  std::uint64_t bytes_ = 0;
  std::uint64_t run_ = 0;  // answers of earlier runs are void
  MonotonicTime not_before_{};
  kubernetes::Backoff backoff_;
  std::string failure_;
  std::string left_out_;
  bool may_come_back_ = false;  // some of the kinds that are left out
};

}  // namespace forestall::cluster
