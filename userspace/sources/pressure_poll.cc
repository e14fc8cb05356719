// SPDX-License-Identifier: Apache-2.0
#include "sources/pressure_poll.h"

#include <fcntl.h>

#include <algorithm>
#include <utility>

#include "kernel/held_file.h"
#include "kernel/reclaim_counts.h"

namespace forestall::sources {
namespace {

using kernel::CgroupDir;
using kernel::CgroupVersion;

// Advances `before` to `now` and returns the difference; nullopt if one is unknown, or if the
// counter went backwards, because then it belongs to another cgroup.
template <typename T>
std::optional<T> advance(std::optional<T>& before, const std::optional<T>& now) {
  const std::optional<T> was = std::exchange(before, now);
  if (!was || !now || *now < *was) return std::nullopt;
  return T(*now - *was);
}

Result<std::string_view> read_file(const std::string& path, std::string& buffer) {
  const auto file = TRY(kernel::HeldFile::open(AT_FDCWD, path.c_str(), path));
  return file.read(buffer);
}

}  // namespace

PressurePoll::PressurePoll(const kernel::CgroupTree& tree, bool node, std::string proc)
    : tree_(tree), node_(node), proc_(std::move(proc)) {}

bool PressurePoll::add(CgroupId id, const std::string& path) {
  if (cgroups_.contains(id.inode)) return true;
  if (cgroups_.size() == kCgroupsMax) return false;
  cgroups_.emplace(id.inode, Polled{path, Before()});
  return true;
}

void PressurePoll::take_psi(std::string_view text, Before& before, PressureReading& reading) const {
  const auto psi = kernel::parse_psi(text);
  if (!psi) return;
  const auto total = [](const std::optional<kernel::PsiLine>& line) {
    return line ? std::optional(line->total) : std::nullopt;
  };
  reading.some = advance(before.some, total(psi->some));
  reading.full = advance(before.full, total(psi->full));
}

PressureReading PressurePoll::poll_node(MonotonicTime now) {
  PressureReading reading;
  if (const auto text = read_file(proc_ + "/pressure/memory", buffer_)) {
    take_psi(*text, node_before_, reading);
  }
  if (const auto text = read_file(proc_ + "/meminfo", buffer_)) {
    const auto info = kernel::parse_meminfo(*text);
    if (info && info->total && info->available) {
      reading.usage = Bytes{info->total->count - info->available->count};
      reading.limit = info->total;
    }
  }
  if (const auto text = read_file(proc_ + "/vmstat", buffer_)) {
    const kernel::ReclaimCounts counts = kernel::parse_reclaim_counts(*text);
    reading.scanned = advance(node_before_.scanned, counts.scanned);
    reading.reclaimed = advance(node_before_.reclaimed, counts.reclaimed);
    reading.direct_scanned = advance(node_before_.direct_scanned, counts.direct_scanned);
    reading.stalls = advance(node_before_.stalls, counts.stalls);
  }
  const auto began = std::exchange(node_before_.at, now);
  reading.window = began ? now - *began : Duration::zero();
  return reading;
}

std::optional<PressureReading> PressurePoll::poll_cgroup(CgroupId id, const std::string& path,
                                                         Before& before, MonotonicTime now) {
  const bool v2 = tree_.version() == CgroupVersion::v2;
  const auto directory = tree_.open(path);
  if (!directory || directory->id() != id) return std::nullopt;
  PressureReading reading;
  reading.cgroup = id;
  reading.path = path;
  // On a hybrid host the pressure of a cgroup is at the same path of the v2 hierarchy, if that
  // exists.
  const auto unified = tree_.open_unified(path);
  const auto psi = unified ? unified->read("memory.pressure") : unified.error();
  if (psi) take_psi(*psi, before, reading);
  const auto amount = [&](const char* file) -> std::optional<Bytes> {
    const auto text = directory->read(file);
    const auto parsed = text ? kernel::parse_amount(*text) : text.error();
    return parsed ? *parsed : std::nullopt;
  };
  reading.usage = amount(v2 ? "memory.current" : "memory.usage_in_bytes");
  reading.limit = amount(v2 ? "memory.max" : "memory.limit_in_bytes");
  if (const auto text = directory->read("memory.stat")) {
    if (const auto stat = kernel::parse_memory_stat(*text)) {
      reading.scanned = advance(before.scanned, stat->pgscan);
      reading.reclaimed = advance(before.reclaimed, stat->pgsteal);
    }
  }
  const auto began = std::exchange(before.at, now);
  reading.window = began ? now - *began : Duration::zero();
  return reading;
}

std::vector<PressureReading> PressurePoll::poll(MonotonicTime now) {
  std::vector<PressureReading> readings;
  if (node_) readings.push_back(poll_node(now));
  for (auto each = cgroups_.begin(); each != cgroups_.end();) {
    auto reading = poll_cgroup({each->first}, each->second.path, each->second.before, now);
    if (!reading) {
      each = cgroups_.erase(each);
      continue;
    }
    readings.push_back(*std::move(reading));
    ++each;
  }
  return readings;
}

}  // namespace forestall::sources
