// SPDX-License-Identifier: Apache-2.0
// Counts what the loop does, and tells it in Prometheus' text format to whoever asks.
//
// The loop runs at real time and whoever asks does not, so they share no lock the loop would wait
// for: counters are atomic words made at start, for every combination of labels there can be, which
// also means that a first event is seen as an increase. What has no fixed set of labels, the
// amounts by subject, is handed over by try-lock: while it is being read, the loop leaves the
// amounts of its last look there, and brings the next ones.
//
// Names are kubelet's where the meaning is (pkg/kubelet/metrics/metrics.go), else forestall_*; and
// process_*, as all of Prometheus' client libraries have them.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "exports/drop_counts.h"
#include "exports/grpc_counts.h"
#include "exports/sink.h"
#include "exports/stage_histograms.h"
#include "model/feature.h"

namespace forestall::exports {

class Metrics final : public RecordSink, public EvaluationListener {
 public:
  // Amounts of no more subjects than these are told, those with a threshold met first.
  static constexpr std::size_t kSubjectsMax = 64;
  // How much later than it said the loop may look before it counts as stuck. A service manager's
  // watchdog is no more patient.
  static constexpr Duration kSlack = std::chrono::seconds(10);

  // Told besides, from these; both outlive this, null: nothing of the kind.
  struct Recorders {
    const StageHistograms* stages = nullptr;
    const DropCounts* drops = nullptr;
    const GrpcCounts* grpc = nullptr;
  };

  Metrics(std::string_view version, Tier tier, Recorders recorders);
  Metrics(std::string_view version, Tier tier) : Metrics(version, tier, Recorders()) {}
  ~Metrics() override;

  void write(const Record& record) override;
  void looked(const Look& look) override;

  // Any thread. Reads /proc/self besides.
  [[nodiscard]] std::string text() const;
  // Any thread. Whether the loop has looked, and is not overdue by more than kSlack.
  [[nodiscard]] bool alive(MonotonicTime now) const;

 private:
  class Families;
  std::unique_ptr<Families> families_;
};

}  // namespace forestall::exports
