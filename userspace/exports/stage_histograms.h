// SPDX-License-Identifier: Apache-2.0
// How long each stage of the kills took, over the life of the agent.
//
// The loop counts, others read: atomic words, and no lock. A reader may see a kill in one stage and
// not yet in the next; each word by itself is right. Ten bounds a decade from 10 us to 10 s, so a
// quantile is told at most a quarter too high, never too low.
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
  // Upper bounds of what so many of the lengths stayed within; 0 while there is none.
  Duration p50{0};
  Duration p90{0};
  Duration p99{0};
  Duration max{0};  // exact
  Duration sum{0};
};

class StageHistograms final : public RecordSink {
 public:
  static constexpr std::size_t kBounds = 61;

  // Counts the outcome of a kill, of a stage that a stuck one reaches later once more. A dry run is
  // counted as far as it goes.
  void write(const Record& record) override;

  // Any thread, from here on.
  void count(Stage stage, Duration length);
  [[nodiscard]] StageSummary summary(Stage stage) const;
  // How many were no longer than `bound`; exact where `bound` is one of bounds().
  [[nodiscard]] std::uint64_t within(Stage stage, Duration bound) const;
  // 10 us, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100 us, ... 10 s.
  [[nodiscard]] static const std::array<Duration, kBounds>& bounds();

 private:
  struct Counts {
    std::array<std::atomic<std::uint64_t>, kBounds + 1> within{};  // the last: longer than any
    std::atomic<std::int64_t> sum_ns{0};
    std::atomic<std::int64_t> max_ns{0};
  };
  // A kill that is stuck, and which of its stages are counted.
  struct Stuck {
    std::uint64_t record = 0;
    std::array<bool, kStageCount> counted{};
  };
  static constexpr std::size_t kStuckMax = 64;

  std::array<Counts, kStageCount> stages_;
  std::vector<Stuck> stuck_;  // the loop's
};

}  // namespace forestall::exports
