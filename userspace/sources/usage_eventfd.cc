// SPDX-License-Identifier: Apache-2.0
#include "sources/usage_eventfd.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "kernel/held_file.h"
#include "kernel/memory_files.h"

namespace forestall::sources {

// A line that sank by less than this is not moved: the kernel checks only every 128 page events of
// a CPU, so a finer registration would cost a grace period without benefit.
constexpr std::int64_t kStepPages = 128;

struct UsageEventfd::Watch {
  CgroupId cgroup;
  bool early = false;  // for the warning line
  std::string path;
  std::shared_ptr<const kernel::UsageEventFiles> files;
  std::optional<Bytes> requested;  // requested from the arming thread, or armed
  UniqueFd event;
  bool wanted = true;      // the last arm() has a line for it
  bool was_below = false;  // usage was below the line when it was requested
  bool reported = false;   // reported since then: usage was at or above what is armed
};

namespace {

Bytes step() {
  return {kStepPages * ::sysconf(_SC_PAGESIZE)};
}

// Whether the armed threshold is still useful. If armed too low, it fires early, which costs one
// evaluation. It may stay until usage reaches it; the kernel then counts usage as above and would
// not signal further growth. If armed too high by more than a step, it would fire late.
//
// After a report, a lower reading in the loop does not disprove it. The kernel compares right after
// a CPU has charged a batch of pages, and may return the unused rest of the batch before the loop
// reads.
bool still_good(Bytes armed, bool reported, const Line& line) {
  if (line.usage_line + step() < armed) return false;
  const bool kernel_reports_above = reported || line.usage >= armed;
  return !(kernel_reports_above && line.headroom >= Bytes{0});
}

// Where to arm: at the line, but above current usage if the line is not met yet. Usage equal to the
// line does not cross it (policy/thresholds.cc compares strictly), but the kernel counts it as
// passed.
Bytes next_threshold(const Line& line) {
  if (line.headroom < Bytes{0}) return line.usage_line;
  return std::max(line.usage_line, line.usage + Bytes{::sysconf(_SC_PAGESIZE)});
}

// The warning line as a separate line.
std::optional<Line> warning_of(const Line& line) {
  if (!line.warning || line.usage_line <= *line.warning) return std::nullopt;
  Line early = line;
  early.usage_line -= *line.warning;
  early.headroom -= *line.warning;
  return early;
}

bool add_to_epoll(int epoll, int fd, std::uint64_t tag) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = tag;
  return ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

UsageEventfd::UsageEventfd(const kernel::CgroupTree& tree, UniqueFd epoll, UniqueFd done)
    : tree_(tree),
      epoll_(std::move(epoll)),
      done_(std::move(done)),
      arming_(std::make_unique<UsageArming>(done_.get())) {}

UsageEventfd::~UsageEventfd() = default;

Result<std::unique_ptr<Source>> UsageEventfd::create(const kernel::CgroupTree& tree,
                                                     const std::string& /* proc */) {
  if (tree.version() != kernel::CgroupVersion::v1) {
    return error("usage_eventfd: cgroup v2 has no cgroup.event_control");
  }
  const auto root = TRY(tree.open("/"));
  TRY(kernel::open_usage_event_files(root));
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return errno_error("epoll_create1", "for usage_eventfd");
  UniqueFd done(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!done) return errno_error("eventfd", "for usage_eventfd");
  if (!add_to_epoll(epoll.get(), done.get(), 0)) return errno_error("epoll_ctl", "usage_eventfd");
  return std::unique_ptr<Source>(new UsageEventfd(tree, std::move(epoll), std::move(done)));
}

UsageEventfd::Watch* UsageEventfd::find(CgroupId cgroup, bool early) {
  const auto found = watches_.find({cgroup, early});
  return found == watches_.end() ? nullptr : found->second.get();
}

Result<UsageEventfd::Watch*> UsageEventfd::open_watch(const Line& line, bool early) {
  auto fresh = std::make_unique<Watch>();
  fresh->cgroup = line.cgroup;
  fresh->early = early;
  fresh->path = line.path;
  if (const auto* other = find(line.cgroup, !early)) {
    fresh->files = other->files;
  } else {
    const auto cgroup = TRY(tree_.open(line.cgroup.inode == 0 ? "/" : line.path));
    if (line.cgroup.inode != 0 && cgroup.id() != line.cgroup) {
      return Error{ENODEV, fmt::format("{}", line.path)};
    }
    fresh->files = std::make_shared<const kernel::UsageEventFiles>(
        TRY(kernel::open_usage_event_files(cgroup)));
  }
  return watches_.emplace(std::pair(line.cgroup, early), std::move(fresh)).first->second.get();
}

Result<void> UsageEventfd::arm_line(const Line& line, bool early) {
  auto* watch = find(line.cgroup, early);
  if (watch == nullptr) watch = TRY(open_watch(line, early));
  watch->wanted = true;
  if (line.usage_line <= Bytes{0}) return error("the line is at or below zero");
  if (watch->requested && still_good(*watch->requested, watch->reported, line)) return {};
  const Bytes at = next_threshold(line);
  watch->requested = at;
  watch->was_below = line.usage < at;
  watch->reported = false;
  arming_->request({watch->cgroup, watch->early, watch->files, at});
  return {};
}

Result<std::vector<std::string>> UsageEventfd::arm(std::span<const Line> lines,
                                                   MonotonicTime /* now */) {
  auto notes = std::exchange(notes_, {});
  for (auto& [key, watch] : watches_) watch->wanted = false;
  // Several thresholds may watch one cgroup: arms the one that is reached first.
  std::map<CgroupId, const Line*> first;
  for (const auto& line : lines) {
    const auto [same, fresh] = first.try_emplace(line.cgroup, &line);
    const Line& other = *same->second;
    if (!fresh && (other.headroom <= Bytes{0} ||
                   (line.headroom > Bytes{0} && line.usage_line < other.usage_line))) {
      same->second = &line;
    }
  }
  for (const auto& [cgroup, line] : first) {
    const auto armed = arm_line(*line, /*early=*/false);
    if (!armed) {
      notes.push_back(fmt::format("{}: {}", line->path, armed.error().text()));
      continue;
    }
    // If the warning line is at or below zero, the threshold alone is enough.
    const auto warning = warning_of(*line);
    if (!warning) continue;
    const auto warned = arm_line(*warning, /*early=*/true);
    if (!warned) {
      notes.push_back(fmt::format("{}: warning line: {}", line->path, warned.error().text()));
    }
  }
  std::erase_if(watches_, [](const auto& entry) { return !entry.second->wanted; });
  return notes;
}

void UsageEventfd::report(Watch& watch, MonotonicTime now, std::vector<Wake>& wakes) {
  // The kernel signals both directions of each crossing. One report of a warning is enough: usage
  // that oscillates around the line until the next registration would keep the loop busy.
  if (watch.early && watch.reported) return;
  Wake wake{WakeSource::usage_eventfd, now, std::nullopt, std::nullopt};
  if (watch.cgroup.inode != 0) wake.cgroup = watch.cgroup;
  const auto text = kernel::read_whole(watch.files->usage.get(), buffer_, watch.path);
  if (text) wake.usage = kernel::parse_amount(*text).optional().value_or(std::nullopt);
  wakes.push_back(wake);
  watch.reported = true;
}

void UsageEventfd::install(UsageArming::Answer& answer, MonotonicTime now,
                           std::vector<Wake>& wakes) {
  auto* watch = find(answer.cgroup, answer.early);
  // No longer wanted, or requested at another line since; that answer follows later.
  if (watch == nullptr || watch->requested != answer.line) return;
  if (!answer.event) {
    if (answer.event.error().code != ENODEV) {
      notes_.push_back(fmt::format("{}: {}", watch->path, answer.event.error().text()));
    }
    watch->requested.reset();
    return;
  }
  if (!add_to_epoll(epoll_.get(), answer.event->get(), reinterpret_cast<std::uintptr_t>(watch))) {
    notes_.push_back(fmt::format("{}: {}", watch->path, errno_error("epoll_ctl", "add").text()));
    watch->requested.reset();
    return;
  }
  // The old threshold was active until here; closing its descriptor ends it.
  watch->event = std::move(answer.event).value();
  if (!watch->was_below) return;
  const auto text = kernel::read_whole(watch->files->usage.get(), buffer_, watch->path);
  if (!text) return;
  const auto usage = kernel::parse_amount(*text);
  if (usage && *usage && **usage >= answer.line) report(*watch, now, wakes);
}

void UsageEventfd::collect_answers(MonotonicTime now, std::vector<Wake>& wakes) {
  eventfd_t ignored = 0;
  ::eventfd_read(done_.get(), &ignored);
  for (auto& answer : arming_->take_answers()) install(answer, now, wakes);
}

void UsageEventfd::drain(MonotonicTime now, std::vector<Wake>& wakes) {
  std::array<epoll_event, 64> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  bool answered = false;
  for (int i = 0; i < count; ++i) {
    const auto tag = events[static_cast<std::size_t>(i)].data.u64;
    if (tag == 0) {
      answered = true;
      continue;
    }
    auto& watch = *reinterpret_cast<Watch*>(static_cast<std::uintptr_t>(tag));
    eventfd_t crossings = 0;
    // Removal of the cgroup also increments the eventfd; its usage file then reads ENODEV.
    if (::eventfd_read(watch.event.get(), &crossings) == 0) report(watch, now, wakes);
  }
  // After the events: installing replaces descriptors that may be among them.
  if (answered) collect_answers(now, wakes);
}

}  // namespace forestall::sources
