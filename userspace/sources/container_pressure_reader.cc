// SPDX-License-Identifier: Apache-2.0
#include "sources/container_pressure_reader.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>

#include "kernel/amount_setting.h"
#include "kernel/memory_files.h"

namespace forestall::sources {
namespace {

constexpr const char* kPressureFile = "memory.pressure";
// Poll reports each event until the file is read, and a cgroup at its limit has hundreds of them in
// a second.
constexpr std::uint32_t kOneEventOfPressure = EPOLLPRI | EPOLLONESHOT;
// The window of a trigger (kernel/psi_trigger.h). An average of 10 s is above a percentage only if
// one of these windows is.
constexpr double kTriggerWindowMs = 500;

// What an event belongs to: the serial of a cgroup, and whether it is of the trigger. 0: `others`.
std::uint64_t token_of_events(std::uint64_t serial) {
  return serial * 2;
}
std::uint64_t token_of_trigger(std::uint64_t serial) {
  return serial * 2 + 1;
}

Duration trigger_threshold(double percent) {
  const double ms = std::clamp(percent / 100 * kTriggerWindowMs, 1.0, kTriggerWindowMs);
  return std::chrono::microseconds(static_cast<std::int64_t>(ms * 1000));
}

int timeout_until(std::optional<MonotonicTime> due) {
  if (!due) return -1;
  const auto left = std::max(*due - SystemClock().now(), Duration{0});
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::min<std::int64_t>(ms, std::numeric_limits<int>::max()));
}

// "max" has no number.
Result<Bytes> read_pressure_limit(const kernel::CgroupDir& cgroup, const char* file) {
  return TRY(kernel::read_amount(cgroup, file)).value_or(kNoMemoryLimit);
}

Result<kernel::HeldFile> open_local_events(const kernel::CgroupDir& cgroup) {
  auto local = kernel::HeldFile::open(cgroup.fd(), "memory.events.local",
                                      cgroup.path() + "/memory.events.local");
  if (local || local.error().code != ENOENT) return local;
  return kernel::HeldFile::open(cgroup.fd(), "memory.events", cgroup.path() + "/memory.events");
}

// The kernel has no PSI, or it was turned off for this cgroup.
bool is_without_psi(const Error& failure) {
  return failure.code == ENOENT || failure.code == EOPNOTSUPP;
}

}  // namespace

Result<std::unique_ptr<ContainerPressureReader>> ContainerPressureReader::create(
    const kernel::CgroupTree& tree, const std::vector<int>& others) {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return errno_error("epoll_create1", "for pressure of containers");
  for (const int fd : others) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = 0;
    if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
      return errno_error("epoll_ctl", "for pressure of containers");
    }
  }
  return std::unique_ptr<ContainerPressureReader>(
      new ContainerPressureReader(tree, std::move(epoll)));
}

Result<void> ContainerPressureReader::watch(CgroupId cgroup, const std::string& path,
                                            std::optional<double> psi) {
  if (watches(cgroup)) return {};
  auto directory = TRY(tree_.open(path));
  if (directory.id() != cgroup) return Error{ENODEV, path + " was removed"};
  auto events = TRY(open_local_events(directory));
  // Poll reports only changes after a read (fs/kernfs/file.c kernfs_generic_poll).
  TRY(events.read(buffer_));
  auto watched = std::make_unique<Watched>(
      Watched{cgroup, ++last_serial_, std::move(directory), std::move(events), psi});
  set_trigger(*watched);
  serials_.emplace(watched->serial, cgroup);
  watched_.emplace(cgroup, std::move(watched));
  return {};
}

// Its descriptors are closed, which removes them from the epoll set.
void ContainerPressureReader::forget(CgroupId cgroup) {
  const auto found = watched_.find(cgroup);
  if (found == watched_.end()) return;
  serials_.erase(found->second->serial);
  watched_.erase(found);
}

void ContainerPressureReader::set_trigger(Watched& watched) {
  if (!watched.psi || watched.trigger) return;
  auto trigger = kernel::open_psi_trigger(watched.directory.fd(), kPressureFile,
                                          watched.directory.path() + "/" + kPressureFile,
                                          trigger_threshold(*watched.psi));
  if (!trigger) {
    watched.without_trigger = trigger.error().text();
    return;
  }
  watched.trigger = std::move(trigger).value();
  watched.without_trigger.clear();
}

void ContainerPressureReader::end_trigger(Watched& watched, std::string why) {
  if (!watched.psi) return;
  watched.trigger.reset();
  watched.without_trigger = std::move(why);
}

Result<std::optional<Duration>> ContainerPressureReader::read_stall(Watched& watched) {
  const auto text = watched.directory.read(kPressureFile);
  if (!text && !is_without_psi(text.error())) return text.error();
  if (!text) {
    end_trigger(watched, text.error().text());
    return std::optional<Duration>();
  }
  const auto psi = TRY(kernel::parse_psi(*text));
  if (!psi.some) return error(watched.directory.path() + "/memory.pressure has no \"some\"");
  set_trigger(watched);
  return std::optional(psi.some->total);
}

Result<ContainerPressureReading> ContainerPressureReader::read(CgroupId cgroup, MonotonicTime now) {
  Watched& watched = *watched_.at(cgroup);
  ContainerPressureReading reading{cgroup, now};
  const auto events = TRY(watched.events.read(buffer_));
  const auto counts = TRY(kernel::parse_memory_events(events));
  reading.high_events = counts.high;
  reading.max_events = counts.max;
  reading.some_stall = TRY(read_stall(watched));
  reading.usage = TRY(kernel::read_usage(watched.directory));
  reading.high = TRY(read_pressure_limit(watched.directory, "memory.high"));
  reading.max = TRY(read_pressure_limit(watched.directory, "memory.max"));
  return reading;
}

Result<void> ContainerPressureReader::arm(int fd, const std::string& name,
                                          std::uint64_t token) const {
  epoll_event event{};
  event.events = kOneEventOfPressure;
  event.data.u64 = token;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) == 0) return {};
  if (errno == ENOENT && ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return {};
  return errno_error("epoll_ctl", name);
}

Result<void> ContainerPressureReader::arm(CgroupId cgroup) {
  const Watched& watched = *watched_.at(cgroup);
  if (!watched.without_trigger.empty()) return error(watched.without_trigger);
  TRY(arm(watched.events.fd(), watched.events.name(), token_of_events(watched.serial)));
  if (!watched.trigger) return {};
  return arm(watched.trigger->fd.get(), watched.directory.path() + "/" + kPressureFile,
             token_of_trigger(watched.serial));
}

std::vector<CgroupId> ContainerPressureReader::wait(std::optional<MonotonicTime> due) {
  std::array<epoll_event, 64> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                 timeout_until(due));
  std::vector<CgroupId> cgroups;
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    const auto found = serials_.find(event.data.u64 / 2);
    if (found == serials_.end()) continue;
    Watched& watched = *watched_.at(found->second);
    const bool is_of_trigger = event.data.u64 == token_of_trigger(watched.serial);
    // Of memory.events.local, each event has EPOLLERR.
    if (is_of_trigger && (event.events & EPOLLERR) != 0) {
      end_trigger(watched, watched.directory.path() + "/memory.pressure was turned off");
    }
    cgroups.push_back(watched.cgroup);
  }
  return cgroups;
}

}  // namespace forestall::sources
