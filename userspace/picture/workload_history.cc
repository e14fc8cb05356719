// SPDX-License-Identifier: Apache-2.0
#include "picture/workload_history.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "text/utf8.h"

namespace forestall::picture {
namespace {

constexpr const char* kOthers = "others";

// Unknown usage is not drawn.
std::optional<std::int64_t> bytes_of(const WorkloadSample& sample) {
  if (const auto working_set = sample.working_set()) return working_set->count;
  if (sample.usage) return sample.usage->count;
  return std::nullopt;
}

// Copies the rows of `from` after `after_us`: the lines in `lines`, then the sum of all others.
void put_lines(const ThinnedTable& from, const std::vector<std::size_t>& lines, bool others,
               std::int64_t after_us, internal::Table& out) {
  ThinnedTable drawn(Thinning::sum, from.rows() + 8);
  std::vector<bool> is_drawn(from.lines(), false);
  for (const std::size_t line : lines) {
    drawn.add_line(from.name(line));
    is_drawn[line] = true;
  }
  if (others) drawn.add_line(kOthers);
  for (std::size_t row = 0; row < from.rows(); ++row) {
    if (from.at_us(row) <= after_us) continue;
    drawn.add_row(from.at_us(row));
    std::size_t target = 0;
    for (const std::size_t line : lines) {
      if (const auto value = from.value(line, row)) drawn.set(target, *value);
      ++target;
    }
    if (!others) continue;
    std::int64_t sum = 0;
    bool known = false;
    for (std::size_t line = 0; line < from.lines(); ++line) {
      known |= from.value(line, row).has_value();
      if (!is_drawn[line]) sum += from.value(line, row).value_or(0);
    }
    if (known) drawn.set(target, sum);
  }
  drawn.put(out);
}

}  // namespace

WorkloadHistory::WorkloadHistory(std::size_t lines_max, std::size_t rows_max, Duration spacing)
    : lines_max_(lines_max),
      spacing_us_(spacing / std::chrono::microseconds(1)),
      table_(Thinning::sum, rows_max) {
  table_.add_line(kOthers);
  owners_.push_back({kOthers, kOthers, 0});
}

void WorkloadHistory::note(std::int64_t at_us, const std::vector<WorkloadSample>& samples) {
  std::erase_if(present_, [&](const auto& each) { return each.second.at_us + kAgeMaxUs < at_us; });
  take(at_us, samples);
}

void WorkloadHistory::replace(std::int64_t at_us, const std::vector<WorkloadSample>& samples) {
  present_.clear();
  take(at_us, samples);
}

// In its own row: the row before shows its last usage.
std::int64_t WorkloadHistory::remove(std::int64_t at_us, const std::string& path) {
  if (present_.erase(path) == 0) return at_us;
  const std::size_t rows = table_.rows();
  if (rows > 0) at_us = std::max(at_us, table_.at_us(rows - 1) + spacing_us_);
  add_row(at_us);
  return at_us;
}

void WorkloadHistory::take(std::int64_t at_us, const std::vector<WorkloadSample>& samples) {
  for (const WorkloadSample& sample : samples) {
    const auto bytes = bytes_of(sample);
    if (!bytes) continue;
    const std::string& path = sample.workload.path;
    Known& known = present_[path];
    known.name = sample.workload.name;
    known.bytes = *bytes;
    known.at_us = at_us;
    if (known.line == kRest) give_line(path, known);
    owners_[known.line].greatest = std::max(owners_[known.line].greatest, *bytes);
  }
  add_row(at_us);
}

// Its own line if it had one, else a new one while there are any. Otherwise it gets the line of the
// smallest workload so far, whose history is added to the rest.
void WorkloadHistory::give_line(const std::string& path, Known& known) {
  if (const auto had = line_of_.find(path); had != line_of_.end()) {
    known.line = had->second;
    return;
  }
  if (owners_.size() <= lines_max_) {
    known.line = table_.add_line(path);
    owners_.push_back({path, known.name, known.bytes});
    line_of_[path] = known.line;
    return;
  }
  const auto smallest =
      std::min_element(owners_.begin() + 1, owners_.end(),
                       [](const Owner& a, const Owner& b) { return a.greatest < b.greatest; });
  if (smallest->greatest >= known.bytes) return;
  const auto line = static_cast<std::size_t>(smallest - owners_.begin());
  if (const auto loser = present_.find(smallest->path); loser != present_.end()) {
    loser->second.line = kRest;
  }
  table_.move_line(line, kRest, path);
  line_of_.erase(smallest->path);
  *smallest = {path, known.name, known.bytes};
  line_of_[path] = line;
  known.line = line;
}

void WorkloadHistory::add_row(std::int64_t at_us) {
  const std::size_t rows = table_.rows();
  if (rows == 0 || at_us - table_.at_us(rows - 1) >= spacing_us_) table_.add_row(at_us);
  table_.clear_row();
  std::int64_t rest = 0;
  std::uint64_t in_rest = 0;
  for (const auto& [path, known] : present_) {
    if (known.line != kRest) {
      table_.set(known.line, known.bytes);
    } else {
      rest += known.bytes;
      ++in_rest;
    }
  }
  if (in_rest > 0) table_.set(kRest, rest);
  rest_seen_ = std::max(rest_seen_, in_rest);
}

void WorkloadHistory::lose(std::int64_t at_us) {
  // The last samples hold up to there.
  if (!present_.empty()) add_row(at_us);
  present_.clear();
  table_.break_lines(at_us);
}

void WorkloadHistory::thin(std::size_t rows_wanted, const std::vector<std::int64_t>& moments,
                           std::int64_t around_us) {
  table_.thin(rows_wanted, moments, around_us);
}

void WorkloadHistory::put(internal::Picture& out, std::size_t drawn, std::int64_t after_us) const {
  std::vector<std::size_t> order(owners_.size() - 1);
  std::iota(order.begin(), order.end(), std::size_t{1});
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](std::size_t line) { return owners_[line].greatest; });
  const std::size_t left_out = order.size() > drawn ? order.size() - drawn : 0;
  order.resize(order.size() - left_out);
  for (const std::size_t line : order) out.add_workload_names(text::to_utf8(owners_[line].name));
  out.set_workloads_left_out(left_out + rest_seen_);
  put_lines(table_, order, left_out + rest_seen_ > 0, after_us, *out.mutable_workloads());
  out.mutable_workloads()->set_rows_read(table_.rows_read());
}

}  // namespace forestall::picture
