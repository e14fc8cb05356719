// SPDX-License-Identifier: Apache-2.0
#include "sources/poll_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "kernel/memory_files.h"
#include "model/workload.h"

namespace forestall::sources {
namespace {

using kernel::HeldFile;

constexpr Duration kShortest = std::chrono::milliseconds(1);
constexpr Duration kLongest = std::chrono::seconds(10);
// While a line is met and told, somebody is being killed for it; looking on at this pace shows
// whether that sufficed (lmkd polls at 10 ms while a kill is pending).
constexpr Duration kMet = std::chrono::milliseconds(10);
constexpr std::int64_t kPerCpu = std::int64_t{2} << 30;
constexpr std::int64_t kPossibleMax = std::int64_t{16} << 30;
// A rate seen above this is an artefact (a cgroup that was moved in whole), not a fill.
constexpr std::int64_t kCredibleMax = std::int64_t{128} << 30;

Result<Bytes> parse_working_set(std::string_view text, std::int64_t page_size) {
  const auto vmstat = TRY(kernel::parse_vmstat(text));
  if (!vmstat.nr_anon_pages || !vmstat.nr_file_pages || !vmstat.nr_inactive_file) {
    return error("nr_anon_pages, nr_file_pages or nr_inactive_file is missing");
  }
  const auto bytes = [&](std::uint64_t pages) {
    return Bytes{static_cast<std::int64_t>(pages) * page_size};
  };
  return working_set(bytes(*vmstat.nr_file_pages + *vmstat.nr_anon_pages),
                     bytes(*vmstat.nr_inactive_file));
}

}  // namespace

std::int64_t possible_fill_rate(unsigned cpus) {
  return std::min(kPossibleMax, kPerCpu * std::max<std::int64_t>(cpus, 1));
}

Duration interval_for(Bytes headroom, std::int64_t bytes_per_second) {
  if (headroom <= Bytes{0}) return kShortest;
  const auto seconds = static_cast<double>(headroom.count) / static_cast<double>(bytes_per_second);
  if (seconds >= std::chrono::duration<double>(kLongest).count()) return kLongest;
  const auto exact = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
  return std::max(exact, kShortest);
}

// One line. The crossing is working set > floor_line, which holds whatever inactive_file became.
struct PollSource::Watch {
  CgroupId cgroup;
  std::string path;
  Bytes floor_line;
  std::optional<HeldFile> usage;  // nothing for the node: vmstat
  std::optional<HeldFile> stat;
  bool wanted = true;
  std::optional<Bytes> last;
  MonotonicTime last_at;
};

PollSource::PollSource(const kernel::CgroupTree& tree, HeldFile vmstat, UniqueFd timer)
    : tree_(tree),
      vmstat_(std::move(vmstat)),
      timer_(std::move(timer)),
      fill_rate_(possible_fill_rate(std::thread::hardware_concurrency())) {}

PollSource::~PollSource() = default;

Result<std::unique_ptr<Source>> PollSource::create(const kernel::CgroupTree& tree,
                                                   const std::string& proc) {
  const auto path = proc + "/vmstat";
  auto vmstat = TRY(HeldFile::open(AT_FDCWD, path.c_str(), path));
  UniqueFd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!timer) return errno_error("timerfd_create", "for poll");
  std::unique_ptr<PollSource> source(new PollSource(tree, std::move(vmstat), std::move(timer)));
  const auto first =
      parse_working_set(TRY(source->vmstat_.read(source->buffer_)), ::sysconf(_SC_PAGESIZE));
  if (!first) return first.error().in(path);
  return std::unique_ptr<Source>(std::move(source));
}

PollSource::Watch* PollSource::find(CgroupId cgroup, Bytes floor_line) {
  const auto found = std::find_if(watches_.begin(), watches_.end(), [&](const auto& watch) {
    return watch->cgroup == cgroup && (watch->floor_line == floor_line || !watch->wanted);
  });
  return found == watches_.end() ? nullptr : found->get();
}

Result<void> PollSource::arm_line(const Line& line, MonotonicTime now) {
  auto* watch = find(line.cgroup, line.floor_line);
  if (watch == nullptr) {
    auto fresh = std::make_unique<Watch>();
    fresh->cgroup = line.cgroup;
    fresh->path = line.path;
    if (line.cgroup.inode != 0) {
      const auto cgroup = TRY(tree_.open(line.path));
      if (cgroup.id() != line.cgroup) return Error{ENODEV, fmt::format("{}", line.path)};
      const bool v1 = tree_.version() == kernel::CgroupVersion::v1;
      const char* file = v1 ? "memory.usage_in_bytes" : "memory.current";
      fresh->usage = TRY(HeldFile::open(cgroup.fd(), file, line.path + "/" + file));
      fresh->stat = TRY(HeldFile::open(cgroup.fd(), "memory.stat", line.path + "/memory.stat"));
    }
    fresh->last_at = now;
    watch = watches_.emplace_back(std::move(fresh)).get();
  }
  watch->wanted = true;
  watch->floor_line = line.floor_line;
  return {};
}

Result<std::vector<std::string>> PollSource::arm(std::span<const Line> lines, MonotonicTime now) {
  std::vector<std::string> notes;
  for (auto& watch : watches_) watch->wanted = false;
  Duration interval = kLongest;
  for (const auto& line : lines) {
    const auto armed = arm_line(line, now);
    if (!armed) {
      notes.push_back(fmt::format("{}: {}", line.path, armed.error().text()));
      continue;
    }
    const bool met = line.headroom <= Bytes{0};
    interval = std::min(interval, met ? kMet : interval_for(line.headroom, fill_rate_));
  }
  std::erase_if(watches_, [](const std::unique_ptr<Watch>& watch) { return !watch->wanted; });
  set_timer(watches_.empty() ? Duration::zero() : interval);
  return notes;
}

std::optional<Bytes> PollSource::node_working_set() {
  const auto text = vmstat_.read(buffer_);
  if (!text) return std::nullopt;
  return parse_working_set(*text, ::sysconf(_SC_PAGESIZE)).optional();
}

std::optional<Bytes> PollSource::read_usage(const HeldFile& file) {
  const auto text = file.read(buffer_);
  if (!text) return std::nullopt;
  return kernel::parse_amount(*text).optional().value_or(std::nullopt);
}

std::optional<Bytes> PollSource::look(Watch& watch) {
  if (!watch.usage) return node_working_set();
  const auto usage = read_usage(*watch.usage);
  // The working set is never above usage: below the floor there is no need for the costly file.
  if (!usage || *usage <= watch.floor_line) return usage;
  // Drift: inactive_file decides whether the line is crossed, and usage does not show it move.
  const auto text = watch.stat->read(buffer_);
  if (!text) return std::nullopt;
  const auto stat = kernel::parse_memory_stat(*text);
  if (!stat || !stat->inactive_file) return std::nullopt;
  return working_set(*usage, *stat->inactive_file);
}

void PollSource::learn_rate(Watch& watch, Bytes reading, MonotonicTime now) {
  const auto elapsed = now - watch.last_at;
  if (watch.last && reading > *watch.last && elapsed >= kShortest) {
    const auto rate = static_cast<double>((reading - *watch.last).count) /
                      std::chrono::duration<double>(elapsed).count();
    if (rate < static_cast<double>(kCredibleMax)) {
      fill_rate_ = std::max(fill_rate_, static_cast<std::int64_t>(rate));
    }
  }
  watch.last = reading;
  watch.last_at = now;
}

void PollSource::drain(MonotonicTime now, std::vector<Wake>& wakes) {
  std::uint64_t expirations = 0;
  if (::read(timer_.get(), &expirations, sizeof(expirations)) < 0) return;  // not due
  Duration interval = kLongest;
  for (auto& watch : watches_) {
    const auto reading = look(*watch);
    if (!reading) continue;  // removed: the next arm() will not name it
    learn_rate(*watch, *reading, now);
    const Bytes headroom = watch->floor_line - *reading;
    if (headroom >= Bytes{0}) {
      interval = std::min(interval, interval_for(headroom, fill_rate_));
      continue;
    }
    interval = std::min(interval, kMet);
    Wake wake{WakeSource::poll, now, std::nullopt, *reading};
    if (watch->cgroup.inode != 0) wake.cgroup = watch->cgroup;
    wakes.push_back(wake);
  }
  set_timer(interval);
}

void PollSource::set_timer(Duration interval) {
  interval_ = interval;
  itimerspec when{};
  when.it_value.tv_sec = interval / std::chrono::seconds(1);
  when.it_value.tv_nsec = (interval % std::chrono::seconds(1)).count();
  ::timerfd_settime(timer_.get(), 0, &when, nullptr);
}

}  // namespace forestall::sources
