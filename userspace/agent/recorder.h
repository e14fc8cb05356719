// SPDX-License-Identifier: Apache-2.0
// What the loop saw and decided, to a recording: on disk as a ring while the agent runs, or in a
// file for as long as somebody wants one.
//
// The loop encodes, which takes it some microseconds after whoever had to be killed was, and gives
// the bytes to the writer's thread (recording/writer.h). It never waits: where whoever starts or
// stops a recording holds the lock at that moment, the pass is lost, counted and told in the file.
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
#include "api/recording_entries.h"
#include "base/result.h"
#include "exports/drop_counts.h"
#include "exports/log.h"
#include "exports/sink.h"
#include "recording/writer.h"

namespace forestall::agent {

// What all of a recording made now has in common.
[[nodiscard]] api::RecordingFacts recording_facts(const Host& host, api::Recorder recorder,
                                                  const std::string& config_origin);

class Recorder final : public exports::RecordSink {
 public:
  // Both outlive this; `drops` null: nobody asks for counts.
  explicit Recorder(exports::Log& log, exports::DropCounts* drops = nullptr);
  // stop(), if nobody did. REQUIRES: the loop has ended.
  ~Recorder() override;

  // ---- any thread's ----

  // When the target is opened: with start(), which tells what is wrong with it; or by the writer's
  // thread, so that whoever starts waits for no disk: what is wrong is in the log then.
  enum class Opening : std::uint8_t { now, by_thread };

  // From the loop's next look on. Errors: EALREADY while a recording is made, and those of
  // recording::Writer::create().
  // `survey_interval`: how often workloads are read between decisions, at most; no more than a
  // thousandth of the loop's time goes into it.
  [[nodiscard]] Result<void> start(const recording::Target& target,
                                   const api::RecordingFacts& facts, Duration survey_interval,
                                   Opening opening = Opening::now);
  // Ends it: what it came to. Errors: ENODATA if there is none; what kept it from a clean end.
  [[nodiscard]] Result<recording::Totals> stop();
  // So far; nothing: no recording is made.
  [[nodiscard]] std::optional<recording::Totals> totals() const;

  // Before the loop begins. What the kernel counts of memory pressure is read by this, with a look,
  // at most every kPressureEvery, and recorded beside it. Null (at first): it is not.
  using PressureGauge = std::function<MemoryPressure(MonotonicTime)>;
  void set_pressure_gauge(PressureGauge gauge) { gauge_ = std::move(gauge); }
  static constexpr Duration kPressureEvery = std::chrono::milliseconds(250);

  // ---- the loop's ----

  void passed(const exports::Pass& pass) override;
  void write(const Record& record) override;
  [[nodiscard]] bool wants_survey(MonotonicTime now) override;
  void surveyed(const exports::Survey& survey) override;

 private:
  struct Session;

  // Null, and counted: the lock is held.
  [[nodiscard]] std::unique_lock<std::mutex> try_lock(std::uint64_t entries);
  void tell_trouble(Session& session);
  void tell_pressure(Session& session, MonotonicTime at);
  void count_lost(Session& session);

  exports::Log& log_;
  exports::DropCounts* drops_;
  PressureGauge gauge_;
  mutable std::mutex mutex_;
  std::unique_ptr<Session> session_;  // null: no recording is made
  // Ended ones. The loop made what they hold, and frees it: no other thread takes its arena's lock.
  std::vector<std::unique_ptr<Session>> retired_;
  std::atomic<std::uint64_t> missed_{0};  // entries, while the lock was held
};

}  // namespace forestall::agent
