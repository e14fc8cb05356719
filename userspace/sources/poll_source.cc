// SPDX-License-Identifier: Apache-2.0
#include "sources/poll_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "kernel/memory_files.h"
#include "model/until_oom.h"
#include "model/workload.h"
#include "sources/node_reader.h"
#include "sources/poll_timer.h"

namespace forestall::sources {
namespace {

using kernel::HeldFile;

constexpr Duration kShortestPoll = std::chrono::milliseconds(1);
constexpr Duration kLongestPoll = std::chrono::seconds(10);
// A met and reported line is not urgent: the loop evaluates on its own while it stays met, and a
// read here only covers what that may miss.
constexpr Duration kReportedPause = std::chrono::milliseconds(100);
// Growth after the last report that is reported although the line was met before.
constexpr Bytes kReportedStep = mib(16);
// Reported, but the loop did not find it met: usage has fallen since, or the loop reads another
// counter. The latter must not cause a wake every millisecond.
constexpr Duration kDisputed = std::chrono::milliseconds(10);
constexpr std::int64_t kPerCpu = std::int64_t{2} << 30;
constexpr std::int64_t kPossibleMax = std::int64_t{16} << 30;
// A rate above this is an artefact (a whole cgroup was moved), not a fill.
constexpr std::int64_t kCredibleMax = std::int64_t{128} << 30;

// The part of RAM and swap outside the kernel's estimate (policy/signals.h, memory.untilOom).
Result<Bytes> parse_not_left(std::string_view text) {
  const auto meminfo = TRY(kernel::parse_meminfo(text));
  if (!meminfo.total || !meminfo.available || !meminfo.swap_total || !meminfo.swap_free) {
    return error("MemTotal, MemAvailable, SwapTotal or SwapFree is missing");
  }
  return *meminfo.total + *meminfo.swap_total - until_oom(*meminfo.available, *meminfo.swap_free);
}

Result<Bytes> parse_working_set(std::string_view vmstat) {
  const auto node = TRY(parse_node_usage(vmstat, ::sysconf(_SC_PAGESIZE)));
  return working_set(node.usage, node.inactive_file);
}

}  // namespace

std::int64_t possible_fill_rate(unsigned cpus) {
  return std::min(kPossibleMax, kPerCpu * std::max<std::int64_t>(cpus, 1));
}

Duration interval_for(Bytes headroom, std::int64_t bytes_per_second) {
  if (headroom <= Bytes{0}) return kShortestPoll;
  const auto seconds = static_cast<double>(headroom.count) / static_cast<double>(bytes_per_second);
  if (seconds >= std::chrono::duration<double>(kLongestPoll).count()) return kLongestPoll;
  const auto exact = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
  return std::max(exact, kShortestPoll);
}

// The result of a read. Two of the kinds differ by inactive_file: a step from one to the other is
// not a fill.
struct PollSource::WorkingSetReading {
  enum class Kind : std::uint8_t { usage, working_set, not_left };
  Kind kind;
  Bytes amount;
};

// One line. It is crossed if working set > floor_line, whatever the value of inactive_file.
struct PollSource::Watch {
  CgroupId cgroup;
  std::string path;
  bool by_meminfo = false;  // compared with /proc/meminfo instead of a working set
  Bytes floor_line;
  std::optional<Bytes> warning;   // headroom to report; nullopt: none, or already reported
  std::optional<HeldFile> usage;  // nullopt for the node: vmstat
  std::optional<HeldFile> stat;
  bool wanted = true;
  std::optional<WorkingSetReading> last;
  MonotonicTime last_at;
  std::optional<Bytes> reported;                  // met, and reported to the loop at this amount
  std::optional<SourceReadings::Reading> before;  // the last that found it not met
  MonotonicTime due;                              // the next read
};

PollSource::PollSource(const kernel::CgroupTree& tree, HeldFile vmstat, HeldFile meminfo,
                       UniqueFd timer)
    : tree_(tree),
      vmstat_(std::move(vmstat)),
      meminfo_(std::move(meminfo)),
      timer_(std::move(timer)),
      possible_rate_(possible_fill_rate(std::thread::hardware_concurrency())),
      fill_rate_(possible_rate_) {}

PollSource::~PollSource() = default;

Result<std::unique_ptr<Source>> PollSource::create(const kernel::CgroupTree& tree,
                                                   const std::string& proc) {
  const auto path = proc + "/vmstat";
  auto vmstat = TRY(HeldFile::open(AT_FDCWD, path.c_str(), path));
  const auto meminfo_path = proc + "/meminfo";
  auto meminfo = TRY(HeldFile::open(AT_FDCWD, meminfo_path.c_str(), meminfo_path));
  UniqueFd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!timer) return errno_error("timerfd_create", "for poll");
  std::unique_ptr<PollSource> source(
      new PollSource(tree, std::move(vmstat), std::move(meminfo), std::move(timer)));
  const auto first = parse_working_set(TRY(source->vmstat_.read(source->buffer_)));
  if (!first) return first.error().in(path);
  return std::unique_ptr<Source>(std::move(source));
}

PollSource::Watch* PollSource::find(const Line& line) {
  const bool by_meminfo = row_of(line.signal).watch == SignalWatch::meminfo;
  const auto [first, last] = watches_.equal_range({line.cgroup, by_meminfo});
  const auto found = std::find_if(first, last, [&](const auto& entry) {
    return entry.second->floor_line == line.floor_line || !entry.second->wanted;
  });
  return found == last ? nullptr : found->second.get();
}

Result<void> PollSource::arm_line(const Line& line, MonotonicTime now) {
  auto* watch = find(line);
  if (watch == nullptr) {
    auto fresh = std::make_unique<Watch>();
    fresh->cgroup = line.cgroup;
    fresh->path = line.path;
    fresh->by_meminfo = row_of(line.signal).watch == SignalWatch::meminfo;
    if (line.cgroup.inode != 0) {
      const auto cgroup = TRY(tree_.open(line.path));
      if (cgroup.id() != line.cgroup) return Error{ENODEV, fmt::format("{}", line.path)};
      const bool v1 = tree_.version() == kernel::CgroupVersion::v1;
      const char* file = v1 ? "memory.usage_in_bytes" : "memory.current";
      fresh->usage = TRY(HeldFile::open(cgroup.fd(), file, line.path + "/" + file));
      fresh->stat = TRY(HeldFile::open(cgroup.fd(), "memory.stat", line.path + "/memory.stat"));
    }
    fresh->last_at = now;
    const std::pair key(fresh->cgroup, fresh->by_meminfo);
    watch = watches_.emplace(key, std::move(fresh))->second.get();
  }
  watch->wanted = true;
  watch->floor_line = line.floor_line;
  watch->warning = line.warning;
  schedule(*watch, line.headroom, now);
  return {};
}

Duration PollSource::sleep_of(const Watch& watch, Bytes headroom) const {
  const Bytes half_way{watch.warning.value_or(Bytes{0}).count / 2};
  return interval_for(headroom - half_way, fill_rate_);
}

// The loop's fresh reading replaces this source's.
void PollSource::schedule(Watch& watch, Bytes headroom, MonotonicTime now) {
  if (headroom <= Bytes{0}) {
    if (!watch.reported) watch.reported = watch.floor_line - headroom;
    watch.due = now + kReportedPause;
    return;
  }
  const auto sleep = sleep_of(watch, headroom);
  watch.due = now + (watch.reported ? std::max(sleep, kDisputed) : sleep);
  watch.reported.reset();
}

Result<std::vector<std::string>> PollSource::arm(std::span<const Line> lines, MonotonicTime now) {
  std::vector<std::string> notes;
  for (auto& [key, watch] : watches_) watch->wanted = false;
  forget_rate();
  for (const auto& line : lines) {
    const auto armed = arm_line(line, now);
    if (!armed) notes.push_back(fmt::format("{}: {}", line.path, armed.error().text()));
  }
  std::erase_if(watches_, [](const auto& entry) { return !entry.second->wanted; });
  set_timer(now);
  return notes;
}

std::optional<Bytes> PollSource::node_working_set() {
  const auto text = vmstat_.read(buffer_);
  if (!text) return std::nullopt;
  return parse_working_set(*text).optional();
}

std::optional<Bytes> PollSource::read_usage(const HeldFile& file) {
  const auto text = file.read(buffer_);
  if (!text) return std::nullopt;
  return kernel::parse_amount(*text).optional().value_or(std::nullopt);
}

std::optional<PollSource::WorkingSetReading> PollSource::evaluate(const Watch& watch) {
  using Kind = WorkingSetReading::Kind;
  if (watch.by_meminfo) {
    const auto text = meminfo_.read(buffer_);
    if (!text) return std::nullopt;
    const auto not_left = parse_not_left(*text);
    if (!not_left) return std::nullopt;
    return WorkingSetReading{Kind::not_left, *not_left};
  }
  if (!watch.usage) {
    const auto node = node_working_set();
    if (!node) return std::nullopt;
    return WorkingSetReading{Kind::working_set, *node};
  }
  const auto usage = read_usage(*watch.usage);
  // The working set is never above usage: below the floor the expensive file is not needed.
  if (!usage) return std::nullopt;
  const Bytes matters = watch.floor_line - watch.warning.value_or(Bytes{0});
  if (*usage <= matters) return WorkingSetReading{Kind::usage, *usage};
  // Drift: inactive_file decides whether the line is crossed, and usage does not show its changes.
  const auto text = watch.stat->read(buffer_);
  if (!text) return std::nullopt;
  const auto stat = kernel::parse_memory_stat(*text);
  if (!stat || !stat->inactive_file) return std::nullopt;
  return WorkingSetReading{Kind::working_set, working_set(*usage, *stat->inactive_file)};
}

void PollSource::update_rate(Watch& watch, const WorkingSetReading& reading, MonotonicTime now) {
  const auto elapsed = now - watch.last_at;
  if (watch.last && watch.last->kind == reading.kind && elapsed >= kShortestPoll) {
    const auto growth = std::max(reading.amount - watch.last->amount, Bytes{0});
    const auto rate =
        static_cast<double>(growth.count) / std::chrono::duration<double>(elapsed).count();
    if (rate < static_cast<double>(kCredibleMax)) {
      seen_rate_ = std::max(seen_rate_.value_or(0), static_cast<std::int64_t>(rate));
      fill_rate_ = std::max(fill_rate_, *seen_rate_);
    }
  }
  watch.last = reading;
  watch.last_at = now;
}

void PollSource::forget_rate() {
  if (!seen_rate_) return;  // no read since: keep the rate
  fill_rate_ = std::max({possible_rate_, *seen_rate_, fill_rate_ - fill_rate_ / 8});
  seen_rate_.reset();
}

// The agent reads the node's working set from another file, so this source's readings show nothing
// about when that crossed its line.
void PollSource::take_crossing(Watch& watch) {
  const auto before = std::exchange(watch.before, std::nullopt);
  if (!before || (watch.cgroup.inode == 0 && !watch.by_meminfo)) return;
  using Measured = SourceReadings::Measured;
  crossings_.push_back({.cgroup = watch.cgroup,
                        .measured = watch.by_meminfo ? Measured::not_left : Measured::working_set,
                        .by = CrossingOrigin::reading,
                        .before = *before});
}

void PollSource::evaluate_watch(Watch& watch, const WorkingSetReading& reading, MonotonicTime now,
                                std::vector<Wake>& wakes) {
  const Bytes headroom = watch.floor_line - reading.amount;
  const bool warns = watch.warning && headroom <= *watch.warning;
  if (headroom >= Bytes{0}) {
    watch.before = {now, reading.amount};
    watch.reported.reset();
    if (warns) watch.warning.reset();
    watch.due = now + sleep_of(watch, headroom);
    if (!warns) return;
  } else {
    watch.due = now + kReportedPause;
    if (watch.reported && reading.amount < *watch.reported + kReportedStep) return;
    watch.reported = reading.amount;
    take_crossing(watch);
  }
  Wake wake{WakeSource::poll, now, std::nullopt, reading.amount};
  if (watch.cgroup.inode != 0) wake.cgroup = watch.cgroup;
  wakes.push_back(wake);
}

void PollSource::drain(MonotonicTime now, std::vector<Wake>& wakes) {
  std::uint64_t expirations = 0;
  if (::read(timer_.get(), &expirations, sizeof(expirations)) < 0) return;  // not due
  for (auto& [key, watch] : watches_) {
    if (watch->due > now) continue;
    const auto reading = evaluate(*watch);
    if (!reading) {
      watch->due = now + kLongestPoll;  // removed: the next arm() drops it
      continue;
    }
    update_rate(*watch, *reading, now);
    evaluate_watch(*watch, *reading, now, wakes);
  }
  set_timer(now);
}

void PollSource::set_timer(MonotonicTime now) {
  Duration interval = kLongestPoll;
  for (const auto& [key, watch] : watches_) interval = std::min(interval, watch->due - now);
  interval = watches_.empty() ? Duration::zero() : std::max(interval, kShortestPoll);
  interval_ = interval;
  set_poll_timer(timer_.get(), interval);
}

}  // namespace forestall::sources
