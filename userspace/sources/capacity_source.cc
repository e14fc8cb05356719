// SPDX-License-Identifier: Apache-2.0
#include "sources/capacity_source.h"

#include <fcntl.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "kernel/memory_files.h"
#include "sources/poll_timer.h"

namespace forestall::sources {
namespace {

constexpr Duration kShortest = std::chrono::milliseconds(10);
constexpr Duration kLongest = std::chrono::seconds(10);
// A met line is read only to detect its recovery.
constexpr Duration kMet = std::chrono::milliseconds(100);
// A rate above this multiple of the possible one is not use but one operation: fallocate() of a
// file, or a replaced mount.
constexpr std::int64_t kCredibleFactor = 16;

}  // namespace

std::int64_t possible_use_rate(Signal signal, unsigned cpus) {
  switch (unit_of(signal)) {
    case Unit::bytes: return gib(2).count;
    case Unit::inodes: return 200'000;
    case Unit::tasks: return 30'000 * std::max<std::int64_t>(cpus, 1);
  }
  return gib(2).count;
}

Duration capacity_interval(std::int64_t headroom, std::int64_t rate) {
  if (headroom <= 0) return kShortest;
  const double seconds = static_cast<double>(headroom) / static_cast<double>(rate);
  if (seconds >= std::chrono::duration<double>(kLongest).count()) return kLongest;
  const auto exact = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
  return std::max(exact, kShortest);
}

CapacitySource::CapacitySource(const FilesystemReader& filesystems, const TaskReader& tasks,
                               kernel::HeldFile meminfo, UniqueFd timer)
    : filesystems_(filesystems),
      tasks_(tasks),
      meminfo_(std::move(meminfo)),
      timer_(std::move(timer)),
      cpus_(std::thread::hardware_concurrency()) {
  for (const Signal signal : kSignals) level(signal).rate = possible_use_rate(signal, cpus_);
}

Result<std::unique_ptr<CapacitySource>> CapacitySource::create(const FilesystemReader& filesystems,
                                                               const TaskReader& tasks,
                                                               const std::string& proc) {
  const std::string path = proc + "/meminfo";
  auto meminfo = TRY(kernel::HeldFile::open(AT_FDCWD, path.c_str(), path));
  UniqueFd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!timer) return errno_error("timerfd_create", "for filesystems and tasks");
  return std::unique_ptr<CapacitySource>(
      new CapacitySource(filesystems, tasks, std::move(meminfo), std::move(timer)));
}

std::optional<std::int64_t> CapacitySource::evaluate(Signal signal, MonotonicTime now) {
  notes_.clear();
  switch (row_of(signal).measure) {
    case Measure::tasks: return read_tasks(now);
    case Measure::filesystem: return read_filesystem(signal, now);
    case Measure::swap: return read_swap();
    case Measure::working_set:
    case Measure::memory_and_swap: break;
  }
  return std::nullopt;
}

std::optional<std::int64_t> CapacitySource::read_tasks(MonotonicTime now) {
  const auto tasks = tasks_.read(now, notes_);
  if (!tasks.capacity || !tasks.running) return std::nullopt;
  return *tasks.capacity - *tasks.running;
}

std::optional<std::int64_t> CapacitySource::read_filesystem(Signal signal, MonotonicTime now) {
  const auto sample = filesystems_.read(*filesystem_of(signal), now, notes_);
  if (!sample) return std::nullopt;
  if (unit_of(signal) == Unit::inodes) return sample->inodes_free;
  if (!sample->available) return std::nullopt;
  return sample->available->count;
}

// Nothing if swap was removed since the line was computed.
std::optional<std::int64_t> CapacitySource::read_swap() {
  const auto text = meminfo_.read(buffer_);
  if (!text) return std::nullopt;
  const auto meminfo = kernel::parse_meminfo(*text);
  if (!meminfo || !meminfo->swap_total || !meminfo->swap_free) return std::nullopt;
  if (*meminfo->swap_total <= Bytes{0}) return std::nullopt;
  return meminfo->swap_free->count;
}

void CapacitySource::update_rate(Signal signal, std::int64_t available, MonotonicTime now) {
  Level& known = level(signal);
  const auto elapsed = now - known.at;
  if (known.available && elapsed >= kShortest) {
    const double used = static_cast<double>(*known.available) - static_cast<double>(available);
    const double rate = used / std::chrono::duration<double>(elapsed).count();
    const auto possible = possible_use_rate(signal, cpus_);
    if (rate <= static_cast<double>(possible * kCredibleFactor)) {
      known.seen = std::max(known.seen.value_or(0), static_cast<std::int64_t>(rate));
      known.rate = std::max(known.rate, *known.seen);
    }
  }
  if (known.available && elapsed < kShortest) return;  // keep the older one as the base of the rate
  known.available = available;
  known.at = now;
}

// One burst must not shorten every sleep permanently: each observation lowers the rate by an
// eighth, down to the fastest since the last one or the fastest possible one.
void CapacitySource::forget_rates() {
  for (const Signal signal : kSignals) {
    Level& known = level(signal);
    if (!known.seen) continue;  // no read since: keep the rate
    known.rate =
        std::max({possible_use_rate(signal, cpus_), *known.seen, known.rate - known.rate / 8});
    known.seen.reset();
  }
}

Duration CapacitySource::sleep_of(const Watch& watch, std::int64_t available) {
  if (available < watch.line.met_below) return kMet;
  return capacity_interval(available - watch.line.met_below, level(watch.line.signal).rate);
}

void CapacitySource::watch(std::span<const CapacityLine> lines, MonotonicTime now) {
  forget_rates();
  watches_.clear();
  for (const CapacityLine& line : lines) {
    update_rate(line.signal, line.available, now);
    Watch fresh{line, line.met(), now};
    fresh.due = now + sleep_of(fresh, line.available);
    watches_.push_back(fresh);
  }
  set_timer(now);
}

void CapacitySource::drain(MonotonicTime now, std::vector<Wake>& wakes) {
  std::uint64_t expirations = 0;
  if (::read(timer_.get(), &expirations, sizeof(expirations)) < 0) return;  // not due
  bool news = false;
  for (Watch& watch : watches_) {
    if (watch.due > now) continue;
    const auto available = evaluate(watch.line.signal, now);
    if (!available) {
      watch.due = now + kLongest;
      continue;
    }
    update_rate(watch.line.signal, *available, now);
    const bool met = *available < watch.line.met_below;
    news = news || met != watch.met;
    watch.met = met;
    watch.due = now + sleep_of(watch, *available);
  }
  if (news) wakes.push_back({WakeSource::poll, now, {}, {}});
  set_timer(now);
}

void CapacitySource::set_timer(MonotonicTime now) {
  Duration interval = kLongest;
  for (const Watch& watch : watches_) interval = std::min(interval, watch.due - now);
  interval = watches_.empty() ? Duration::zero() : std::max(interval, kShortest);
  interval_ = interval;
  set_poll_timer(timer_.get(), interval);
}

}  // namespace forestall::sources
