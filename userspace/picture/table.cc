// SPDX-License-Identifier: Apache-2.0
#include "picture/table.h"

#include <algorithm>
#include <utility>

#include "text/utf8.h"

namespace forestall::picture {

std::size_t ThinnedTable::add_line(std::string name) {
  lines_.push_back({std::move(name), std::vector<std::int64_t>(at_us_.size(), kUnknown)});
  return lines_.size() - 1;
}

void ThinnedTable::add_row(std::int64_t at_us) {
  if (at_us_.size() >= rows_max_) thin(rows_max_ / 2, {}, 0);
  at_us_.push_back(at_us_.empty() ? at_us : std::max(at_us, at_us_.back()));
  for (Values& line : lines_) line.values.push_back(kUnknown);
  ++rows_read_;
}

void ThinnedTable::break_lines(std::int64_t at_us) {
  if (rows() > 0 && !is_blank(rows() - 1)) add_row(at_us);
}

bool ThinnedTable::is_blank(std::size_t row) const {
  return std::ranges::all_of(lines_,
                             [&](const Values& line) { return line.values[row] == kUnknown; });
}

void ThinnedTable::clear_row() {
  for (Values& line : lines_) line.values.back() = kUnknown;
}

void ThinnedTable::move_line(std::size_t from, std::size_t to, std::string new_name) {
  for (std::size_t row = 0; row < rows(); ++row) {
    std::int64_t& given = lines_[from].values[row];
    std::int64_t& taken = lines_[to].values[row];
    if (given != kUnknown) taken = given + (taken == kUnknown ? 0 : taken);
    given = kUnknown;
  }
  lines_[from].name = std::move(new_name);
}

std::optional<std::int64_t> ThinnedTable::value(std::size_t line, std::size_t row) const {
  const std::int64_t value = lines_[line].values[row];
  if (value == kUnknown) return std::nullopt;
  return value;
}

void ThinnedTable::thin(std::size_t rows_wanted, std::span<const std::int64_t> moments,
                        std::int64_t around_us) {
  if (rows() <= rows_wanted) return;
  // Each group becomes two rows.
  std::size_t size = 2 * rows() / std::max<std::size_t>(rows_wanted, 1) + 1;
  size = std::max<std::size_t>(size, 3);
  auto found = groups(size, moments, around_us);
  // There are so many moments that nearly all rows are near one.
  if (found.size() > rows_wanted) found = groups(size, {}, 0);
  merge(found);
}

std::vector<std::size_t> ThinnedTable::groups(std::size_t size,
                                              std::span<const std::int64_t> moments,
                                              std::int64_t around_us) const {
  std::vector<std::size_t> found{0};
  auto moment = moments.begin();
  bool blank = is_blank(0);
  for (std::size_t row = 1; row < rows(); ++row) {
    while (moment != moments.end() && *moment + around_us < at_us_[row]) ++moment;
    const bool stays = moment != moments.end() && *moment - around_us <= at_us_[row];
    // No group has rows on both sides of a gap.
    const bool breaks = is_blank(row) != std::exchange(blank, is_blank(row));
    if (stays || breaks || row - found.back() >= size) found.push_back(row);
  }
  found.push_back(rows());
  return found;
}

void ThinnedTable::merge(const std::vector<std::size_t>& groups) {
  if (thinning_ == Thinning::sum) {
    const auto kept = extreme_sums(groups);
    for (std::size_t i = 0; i < kept.size(); ++i) at_us_[i] = at_us_[kept[i]];
    for (Values& line : lines_) {
      for (std::size_t i = 0; i < kept.size(); ++i) line.values[i] = line.values[kept[i]];
      line.values.resize(kept.size());
    }
    at_us_.resize(kept.size());
    return;
  }
  for (Values& line : lines_) merge_line(line.values, groups);
  std::size_t out = 0;
  for (std::size_t i = 0; i + 1 < groups.size(); ++i) {
    const std::size_t last = groups[i + 1] - 1;
    // Rows are read before they are overwritten: there are never more than before.
    const std::int64_t to = at_us_[last];
    at_us_[out++] = at_us_[groups[i]];
    if (last > groups[i]) at_us_[out++] = to;
  }
  at_us_.resize(out);
}

void ThinnedTable::merge_line(std::vector<std::int64_t>& values,
                              const std::vector<std::size_t>& groups) const {
  std::size_t out = 0;
  for (std::size_t i = 0; i + 1 < groups.size(); ++i) {
    std::size_t least = groups[i];
    std::size_t greatest = groups[i];
    for (std::size_t row = groups[i]; row < groups[i + 1]; ++row) {
      if (values[row] == kUnknown) continue;
      if (values[least] == kUnknown || values[row] < values[least]) least = row;
      if (values[greatest] == kUnknown || values[row] > values[greatest]) greatest = row;
    }
    const std::int64_t first = values[std::min(least, greatest)];
    const std::int64_t second = values[std::max(least, greatest)];
    const bool single = groups[i + 1] - groups[i] == 1;
    values[out++] = first;
    if (!single) values[out++] = second;
  }
  values.resize(out);
}

// Rows to keep: those with the smallest and the largest sum of each group.
std::vector<std::size_t> ThinnedTable::extreme_sums(const std::vector<std::size_t>& groups) const {
  std::vector<std::int64_t> sums(rows(), 0);
  for (const Values& line : lines_) {
    for (std::size_t row = 0; row < rows(); ++row) {
      if (line.values[row] != kUnknown) sums[row] += line.values[row];
    }
  }
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i + 1 < groups.size(); ++i) {
    const auto begin = sums.begin();
    const auto [least, greatest] =
        std::minmax_element(begin + static_cast<std::ptrdiff_t>(groups[i]),
                            begin + static_cast<std::ptrdiff_t>(groups[i + 1]));
    const auto first = static_cast<std::size_t>(std::min(least, greatest) - begin);
    const auto second = static_cast<std::size_t>(std::max(least, greatest) - begin);
    kept.push_back(first);
    if (second != first) kept.push_back(second);
  }
  return kept;
}

void ThinnedTable::put(internal::Table& out, std::int64_t after_us) const {
  const auto begin = std::upper_bound(at_us_.begin(), at_us_.end(), after_us) - at_us_.begin();
  const auto first = static_cast<std::size_t>(begin);
  out.mutable_at_us()->Add(at_us_.begin() + begin, at_us_.end());
  out.set_rows_read(rows_read_);
  for (const Values& line : lines_) {
    internal::Line& reported = *out.add_lines();
    reported.set_name(text::to_utf8(line.name));
    internal::Run* run = nullptr;
    for (std::size_t row = first; row < rows(); ++row) {
      if (line.values[row] == kUnknown) {
        run = nullptr;
        continue;
      }
      if (run == nullptr) {
        run = reported.add_runs();
        run->set_first(static_cast<std::uint32_t>(row - first));
      }
      run->add_values(line.values[row]);
    }
  }
}

}  // namespace forestall::picture
