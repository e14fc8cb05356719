// SPDX-License-Identifier: Apache-2.0
// Durations of the stages of kills, over the life of the agent.
//
// The loop counts and other threads read, by atomics without a lock. A reader may see a kill in one
// stage and not yet in the next; each single number is correct. There are ten bounds per decade
// from 10 us to 10 s, so a quantile is at most a quarter too high, and never too low.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "exports/sink.h"
#include "model/stage.h"

namespace forestall::exports {

struct StageSummary {
  Stage stage = Stage::wake;
  std::uint64_t count = 0;
  // Quantiles as upper bounds; 0 without a kill.
  Duration p50{0};
  Duration p90{0};
  Duration p99{0};
  Duration max{0};  // exact
  Duration sum{0};
};

class StageHistograms final : public RecordSink {
 public:
  static constexpr std::size_t kBounds = 61;

  // Counts the stages of a kill's outcome; a stuck kill adds later stages with its second outcome.
  // A dry run counts as far as it goes.
  void write(const Record& record) override;

  // The members below can be called by any thread.
  void count(Stage stage, Duration length);
  [[nodiscard]] StageSummary summary(Stage stage) const;
  // Number of durations up to `bound`; exact if `bound` is one of bounds().
  [[nodiscard]] std::uint64_t within(Stage stage, Duration bound) const;
  // 10 us, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100 us, ... 10 s.
  [[nodiscard]] static const std::array<Duration, kBounds>& bounds();

 private:
  struct Counts {
    std::array<std::atomic<std::uint64_t>, kBounds + 1>
        within{};  // the last: longer than all bounds
    std::atomic<std::int64_t> sum_ns{0};
    std::atomic<std::int64_t> max_ns{0};
  };
  // A stuck kill, and which of its stages are counted.
  struct Stuck {
    std::uint64_t record = 0;
    std::array<bool, kStageCount> counted{};
  };
  static constexpr std::size_t kStuckMax = 64;

  std::array<Counts, kStageCount> stages_;
  std::vector<Stuck> stuck_;  // the loop's
};

}  // namespace forestall::exports
