// SPDX-License-Identifier: Apache-2.0
// Records what the loop observed and decided: as a ring on disk while the agent runs, or in a file
// while a client requests one.
//
// The loop encodes after a kill was begun, which takes some microseconds, and gives the bytes to
// the writer's thread (recording/writer.h). It never waits: while another thread starts or stops a
// recording and holds the lock, a pass is lost, and the file counts it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "agent/host.h"
#include "base/result.h"
#include "exports/drop_counts.h"
#include "exports/log.h"
#include "exports/sink.h"
#include "messages/recording_entries.h"
#include "recording/writer.h"

namespace forestall::agent {

// The facts of a recording that begins now.
[[nodiscard]] messages::RecordingFacts recording_facts(const ProbedHost& host,
                                                       messages::RecordedBy recorder,
                                                       const std::string& config_origin);

class Recorder final : public exports::RecordSink, public exports::PassListener {
 public:
  // Reads the kernel's counters of memory pressure: with an evaluation, at most every
  // kPressureEvery.
  using PressureGauge = std::function<MemoryPressure(MonotonicTime)>;
  static constexpr Duration kPressureEvery = std::chrono::milliseconds(250);

  // Log and counts outlive this.
  Recorder(exports::Log& log, exports::DropCounts& drops, PressureGauge gauge);
  // Calls stop(). REQUIRES: the loop has ended.
  ~Recorder() override;

  // The longest time between two recorded evaluations, and between two samples of all workloads
  // unless those take more than 2 % of the loop's time. A reader draws no line over a longer gap.
  static constexpr Duration kInterval = std::chrono::seconds(1);

  // ---- any thread ----

  // When the target is opened: by start(), which returns its errors; or by the writer's thread, so
  // that start() waits for no disk: its errors are logged then.
  enum class Opening : std::uint8_t { now, by_thread };

  // From the loop's next evaluation on. Errors: EALREADY while a recording is made, and those of
  // recording::Writer::create().
  // `workload_sample_interval`: how often workloads are read between decisions, at most; no more
  // than a fiftieth of the loop's time goes into it.
  [[nodiscard]] Result<void> start(const recording::Target& target,
                                   const messages::RecordingFacts& facts,
                                   Duration workload_sample_interval,
                                   Opening opening = Opening::now);
  // Ends it and returns its totals. Errors: ENODATA if there is none; what kept it from a clean
  // end.
  [[nodiscard]] Result<recording::WriterTotals> stop();
  // Totals so far; nothing: no recording is made.
  [[nodiscard]] std::optional<recording::WriterTotals> totals() const;

  // ---- the loop's thread ----

  void passed(const exports::PolicyPass& pass) override;
  void write(const Record& record) override;
  [[nodiscard]] std::optional<Duration> pass_interval() const override {
    return recording_ ? std::optional(kInterval) : std::nullopt;
  }
  [[nodiscard]] bool needs_workload_sample(MonotonicTime now) override;
  void sampled(const exports::WorkloadSampling& workload_sample) override;

 private:
  struct Session;

  // Without the lock if another thread has it; `entries` are counted as lost then.
  [[nodiscard]] std::unique_lock<std::mutex> try_lock(std::uint64_t entries);
  void report_problem(Session& session);
  void report_pressure(Session& session, MonotonicTime at);
  void count_lost(Session& session);

  exports::Log& log_;
  exports::DropCounts& drops_;
  const PressureGauge gauge_;
  mutable std::mutex mutex_;
  std::atomic<bool> recording_{false};
  std::unique_ptr<Session> session_;  // null: no recording is made
  // Ended ones. The loop allocated what they own and frees it: no other thread takes its arena's
  // lock.
  std::vector<std::unique_ptr<Session>> retired_;
  std::atomic<std::uint64_t> missed_{0};  // entries lost while another thread had the lock
};

}  // namespace forestall::agent
