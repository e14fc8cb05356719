// SPDX-License-Identifier: Apache-2.0
// Counts what the loop does, and serializes it in Prometheus' text format.
//
// The loop runs at real-time priority and the scraper does not, so they share no lock that the loop
// waits for. Counters are atomics that are created at start for every combination of labels that
// can occur; a first event is therefore visible as an increase. The amounts by subject have no
// fixed set of labels. The loop publishes them under a try-lock: while they are being read, the
// amounts of the previous evaluation remain, and the next evaluation updates them.
//
// Names are kubelet's where the meaning is the same (pkg/kubelet/metrics/metrics.go), else
// forestall_*; and process_*, as in all Prometheus client libraries.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "exports/drop_counts.h"
#include "exports/loop_counts.h"
#include "exports/loop_work.h"
#include "exports/sink.h"
#include "exports/stage_histograms.h"
#include "exports/status_board.h"
#include "model/container_pressure.h"
#include "model/feature.h"
#include "model/memory_qos.h"
#include "wire/grpc_counts.h"

namespace forestall::exports {

class Metrics final : public RecordSink, public EvaluationListener, public PassListener {
 public:
  // The largest number of subjects with amounts; subjects with a threshold met come first.
  static constexpr std::size_t kSubjectsMax = 64;
  // How late an evaluation may be before the loop counts as stuck. It is not longer than a service
  // manager's watchdog timeout.
  static constexpr Duration kSlack = std::chrono::seconds(10);

  // Further sources of metrics. They outlive this; null: none.
  struct Recorders {
    const StageHistograms* stages = nullptr;
    const DropCounts* drops = nullptr;
    const wire::GrpcCounts* grpc = nullptr;
    const LoopWorkTally* work = nullptr;
    const StatusBoard* board = nullptr;
    const LoopCounts* counts = nullptr;
    // Of memory QoS; null, or returns nothing: there is none.
    std::function<std::shared_ptr<const MemoryQosReport>()> memory_qos = nullptr;
    std::function<std::shared_ptr<const ContainerPressureReport>()> container_pressure = nullptr;
  };

  Metrics(std::string_view version, Tier tier, Recorders recorders);
  Metrics(std::string_view version, Tier tier) : Metrics(version, tier, Recorders()) {}
  ~Metrics() override;

  void write(const Record& record) override;
  void evaluated(const Evaluation& evaluation) override;
  void passed(const PolicyPass& pass) override;
  // The configuration was loaded again; false: it had an error. Any thread.
  void record_reload(bool succeeded);

  // Any thread. Also reads /proc/self.
  [[nodiscard]] std::string text() const;
  // Any thread. Whether the loop has evaluated and is not overdue by more than kSlack.
  [[nodiscard]] bool alive(MonotonicTime now) const;

 private:
  class Families;
  std::unique_ptr<Families> families_;
};

}  // namespace forestall::exports
