// SPDX-License-Identifier: Apache-2.0
#include "picture/pressure_lines.h"

#include <algorithm>

namespace forestall::picture {
namespace {

enum PressureLineIndex : std::size_t { kSome, kFull };
enum ReclaimLine : std::size_t { kScanned, kReclaimed, kStalls };

// Thousandths of a percent: 1e5 is the whole time.
constexpr double kWholeShare = 1e5;

// Nothing: one value is unknown, or the counter decreased.
template <typename Counter>
std::optional<double> difference(const std::optional<Counter>& before,
                                 const std::optional<Counter>& after) {
  if (!before || !after || *after < *before) return std::nullopt;
  if constexpr (std::is_same_v<Counter, Duration>) {
    return static_cast<double>((*after - *before).count());
  } else {
    return static_cast<double>(*after - *before);
  }
}

}  // namespace

PressureLines::PressureLines(std::size_t rows_max)
    : pressure_(Thinning::each_line, rows_max), reclaim_(Thinning::each_line, rows_max) {
  pressure_.add_line("some");
  pressure_.add_line("full");
  reclaim_.add_line("scanned");
  reclaim_.add_line("reclaimed");
  reclaim_.add_line("stalls");
}

void PressureLines::take(std::int64_t at_us, const MemoryPressure& pressure) {
  const auto last = std::exchange(last_, pressure);
  if (!last || pressure.at <= last->at) return;
  const auto window = static_cast<double>((pressure.at - last->at).count());
  pressure_.add_row(at_us);
  const auto share = [&](std::size_t line, const auto& before, const auto& after) {
    const auto waited = difference(before, after);
    if (!waited) return;
    // The kernel updates its sums every two seconds, so a short window may show more than all of
    // its time.
    const double of_whole = std::min(*waited / window, 1.0);
    pressure_.set(line, static_cast<std::int64_t>(of_whole * kWholeShare));
  };
  share(kSome, last->some, pressure.some);
  share(kFull, last->full, pressure.full);
  reclaim_.add_row(at_us);
  const auto rate = [&](std::size_t line, const auto& before, const auto& after, double unit) {
    const auto counted = difference(before, after);
    if (counted) reclaim_.set(line, static_cast<std::int64_t>(*counted * unit / window));
  };
  rate(kScanned, last->scanned, pressure.scanned, 1e9);
  rate(kReclaimed, last->reclaimed, pressure.reclaimed, 1e9);
  rate(kStalls, last->stalls, pressure.stalls, 1e12);
}

void PressureLines::lose(std::int64_t at_us) {
  last_.reset();
  pressure_.break_lines(at_us);
  reclaim_.break_lines(at_us);
}

void PressureLines::thin(std::size_t rows_wanted, const std::vector<std::int64_t>& moments,
                         std::int64_t around_us) {
  pressure_.thin(rows_wanted, moments, around_us);
  reclaim_.thin(rows_wanted, moments, around_us);
}

void PressureLines::put(internal::Picture& out, std::int64_t after_us) const {
  pressure_.put(*out.mutable_pressure(), after_us);
  reclaim_.put(*out.mutable_reclaim(), after_us);
}

}  // namespace forestall::picture
