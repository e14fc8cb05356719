// SPDX-License-Identifier: Apache-2.0
// Builds a picture from the entries of a recording, or from the events of a running agent. Its
// memory is bounded for any length.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "forestall/internal/picture.pb.h"
#include "model/pressure.h"
#include "model/record.h"
#include "model/workload.h"
#include "picture/gauges.h"
#include "picture/moments.h"
#include "picture/pressure_lines.h"
#include "picture/spans.h"
#include "picture/workload_history.h"

namespace forestall::picture {

// Limits of what is kept and drawn.
struct Bounds {
  std::size_t workloads_drawn = 12;  // individually
  std::size_t workloads_kept = 512;  // individually
  std::size_t gauges_drawn = 16;
  std::size_t gauges_kept = 256;
  std::size_t rows_drawn = 3000;  // of each table
  std::size_t rows_kept = 100'000;
  std::size_t workload_rows_kept = 8000;
  std::size_t spans = 1000;
  std::size_t wake_times = 20'000;  // of each source
  Moments::Limits moments = {};
  Duration workload_spacing = std::chrono::milliseconds(2);

  // For a running agent, which shares its memory with the node: some hundred KiB.
  [[nodiscard]] static Bounds of_agent();
};

// The part of a running agent's picture that a viewer already has.
struct Cursor {
  std::int64_t at_us = INT64_MIN;
  std::uint64_t revision = 0;
};

// Thread rule: one thread at a time.
class Builder {
 public:
  explicit Builder(const Bounds& bounds);

  // Sets the clock for the following entries: CLOCK_REALTIME was `wall_time_ns` at `at`. A new run
  // of the agent numbers its records anew. REQUIRES: called before all functions below.
  void anchor(MonotonicTime at, std::int64_t wall_time_ns, bool new_run);
  void set_dry_run(bool dry_run);
  // The longest time between two evaluations of a running agent: over a much longer time, nothing
  // is known. 0: unknown.
  void set_interval(Duration interval) { interval_ = interval; }
  [[nodiscard]] internal::PictureOrigin& origin() { return *facts_.mutable_origin(); }
  void add_remark(std::string remark) { facts_.add_remarks(std::move(remark)); }

  // Difference of CLOCK_REALTIME from the last anchor at `at`.
  [[nodiscard]] std::int64_t drift_ns(MonotonicTime at, std::int64_t wall_time_ns) const {
    return wall_time_ns - to_ns(at) - offset_ns_;
  }

  // An evaluation with its decision; `number` ascends. 0: no record refers to it.
  void evaluation(std::uint64_t number, const Record& evaluated);
  // A record of the evaluation with that number; 0: the record has its own observation and
  // decision.
  void record(std::uint64_t evaluation, const Record& record);
  // Values of signals between evaluations.
  void readings(MonotonicTime at, const std::vector<Evidence>& evidence);
  void workload_sample(MonotonicTime at, const std::vector<WorkloadSample>& samples);
  void pressure(const MemoryPressure& pressure);
  // The time from the last entry to `until` is unknown.
  void lose(MonotonicTime until);

  // The whole picture, thinned to what is drawn.
  [[nodiscard]] internal::Picture picture();
  // The changes since `cursor`, which is advanced. The first call returns everything.
  [[nodiscard]] internal::Picture since(Cursor& cursor) const;

 private:
  [[nodiscard]] std::int64_t us(MonotonicTime at) const;
  std::int64_t reach(MonotonicTime at);
  void note_gap(MonotonicTime at);
  [[nodiscard]] internal::Picture reported(const Cursor& cursor) const;

  Bounds bounds_;
  internal::Picture facts_;  // origin and remarks
  bool anchored_ = false;
  std::int64_t offset_ns_ = 0;  // CLOCK_REALTIME - CLOCK_MONOTONIC
  std::uint64_t run_ = 0;
  std::uint64_t evaluations_ = 0;
  Duration interval_{0};
  std::optional<MonotonicTime> last_evaluation_;
  std::optional<std::int64_t> from_us_;
  std::int64_t to_us_ = 0;
  Gauges gauges_;
  WorkloadHistory workloads_;
  PressureLines pressure_;
  Spans spans_;
  WakeTimes wakes_;
  Moments moments_;
};

}  // namespace forestall::picture
