// SPDX-License-Identifier: Apache-2.0
#include "sources/high_tripwire.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>

#include "kernel/held_file.h"
#include "kernel/memory_files.h"
#include "kernel/memory_high.h"

namespace forestall::sources {
namespace {

// A CPU charges 64 pages ahead of use (include/linux/memcontrol.h MEMCG_CHARGE_BATCH), so usage is
// uncertain by that much. A line that moved less is not written again.
constexpr std::int64_t kStepPages = 64;

bool moved(Bytes armed, Bytes line) {
  const Bytes step{kStepPages * ::sysconf(_SC_PAGESIZE)};
  return line + step < armed || armed + step < line;
}

}  // namespace

struct HighTripwire::Watch {
  CgroupId cgroup;
  std::string path;
  kernel::HeldFile events;
  kernel::MemoryHigh high;
  std::optional<std::uint64_t> crossings;  // memory.events "high" at the last read
  bool wanted = true;
  bool lost = false;  // memory.high was changed by another process, or the cgroup is gone
};

HighTripwire::HighTripwire(const kernel::CgroupTree& tree, const kernel::SettingRecords& records,
                           UniqueFd epoll)
    : tree_(tree), records_(records), epoll_(std::move(epoll)) {}

HighTripwire::~HighTripwire() = default;

Result<std::unique_ptr<Source>> HighTripwire::create(const kernel::CgroupTree& tree,
                                                     const kernel::SettingRecords& records) {
  if (tree.version() != kernel::CgroupVersion::v2) {
    return error("memory_high: cgroup v1 has no memory.high");
  }
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return errno_error("epoll_create1", "for memory_high");
  return std::unique_ptr<Source>(new HighTripwire(tree, records, std::move(epoll)));
}

HighTripwire::Watch* HighTripwire::find(CgroupId cgroup) {
  const auto found = watches_.find(cgroup);
  return found == watches_.end() ? nullptr : found->second.get();
}

Result<HighTripwire::Watch*> HighTripwire::open_watch(const Line& line) {
  const auto cgroup = TRY(tree_.open(line.path));
  if (cgroup.id() != line.cgroup) return Error{ENODEV, fmt::format("{}", line.path)};
  auto events =
      TRY(kernel::HeldFile::open(cgroup.fd(), "memory.events", line.path + "/memory.events"));
  auto high = TRY(kernel::MemoryHigh::open(cgroup, records_));
  auto watch = std::make_unique<Watch>(
      Watch{line.cgroup, line.path, std::move(events), std::move(high), {}, true, false});
  // Poll reports only changes after a read (fs/kernfs/file.c kernfs_generic_poll).
  const auto counts = kernel::parse_memory_events(TRY(watch->events.read(buffer_)));
  if (counts) watch->crossings = counts->high;
  epoll_event event{};
  event.events = EPOLLPRI;
  event.data.ptr = watch.get();
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, watch->events.fd(), &event) != 0) {
    return errno_error("epoll_ctl", watch->events.name());
  }
  return watches_.emplace(line.cgroup, std::move(watch)).first->second.get();
}

Result<void> HighTripwire::arm_line(const Line& line) {
  auto* watch = find(line.cgroup);
  if (watch == nullptr) watch = TRY(open_watch(line));
  watch->wanted = true;
  if (watch->lost) return {};
  const auto armed = watch->high.current();
  if (armed && !moved(*armed, line.usage_line)) return {};
  // A memory.high below usage would make this thread reclaim before the write returns, and a passed
  // line needs no event.
  if (line.usage >= line.usage_line) return {};
  const auto set = watch->high.set(line.usage_line);
  // Reported once. A lower or changed value written by another process is left alone.
  watch->lost = !set;
  return set;
}

Result<std::vector<std::string>> HighTripwire::arm(std::span<const Line> lines,
                                                   MonotonicTime /* now */) {
  std::vector<std::string> notes;
  for (auto& [cgroup, watch] : watches_) watch->wanted = false;
  for (const auto& line : lines) {
    if (!line.tune || line.cgroup.inode == 0) continue;
    const auto armed = arm_line(line);
    if (!armed) notes.push_back(fmt::format("{}: {}", line.path, armed.error().text()));
  }
  for (auto& [cgroup, watch] : watches_) {
    if (watch->wanted) continue;
    const auto restored = watch->high.restore();
    if (!restored) notes.push_back(fmt::format("{}: {}", watch->path, restored.error().text()));
  }
  std::erase_if(watches_, [](const auto& entry) { return !entry.second->wanted; });
  return notes;
}

void HighTripwire::drain(MonotonicTime now, std::vector<Wake>& wakes) {
  std::array<epoll_event, 64> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    auto& watch = *static_cast<Watch*>(events[static_cast<std::size_t>(i)].data.ptr);
    const auto text = watch.events.read(buffer_);
    if (!text) {
      // The cgroup was removed: poll would report it without end.
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, watch.events.fd(), nullptr);
      watch.lost = true;
      continue;
    }
    const auto counts = kernel::parse_memory_events(*text);
    // Other counters of the file (max, oom) share its poll; they change together with "high" or too
    // late.
    if (!counts || counts->high == watch.crossings) continue;
    watch.crossings = counts->high;
    wakes.push_back({WakeSource::high_tripwire, now, watch.cgroup, std::nullopt});
  }
}

}  // namespace forestall::sources
