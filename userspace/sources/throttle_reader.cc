// SPDX-License-Identifier: Apache-2.0
#include "sources/throttle_reader.h"

#include <sys/epoll.h>

#include <array>
#include <utility>

#include "kernel/amount_setting.h"
#include "kernel/memory_files.h"

namespace forestall::sources {
namespace {

// Disabled after one event: poll reports EPOLLERR with each, and a cgroup that is throttled has
// hundreds of them in a second.
constexpr std::uint32_t kOneEvent = EPOLLPRI | EPOLLONESHOT;

}  // namespace

Result<std::unique_ptr<ThrottleReader>> ThrottleReader::create(const kernel::CgroupTree& tree) {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return errno_error("epoll_create1", "for memory.high");
  return std::unique_ptr<ThrottleReader>(new ThrottleReader(tree, std::move(epoll)));
}

Result<void> ThrottleReader::watch(CgroupId cgroup, const std::string& path) {
  if (watches(cgroup)) return {};
  auto directory = TRY(tree_.open(path));
  if (directory.id() != cgroup) return Error{ENODEV, path + " was removed"};
  auto events = TRY(
      kernel::HeldFile::open(directory.fd(), "memory.events.local", path + "/memory.events.local"));
  auto watched =
      std::make_unique<Watched>(Watched{cgroup, std::move(directory), std::move(events)});
  // Poll reports only changes after a read (fs/kernfs/file.c kernfs_generic_poll).
  TRY(read(*watched, MonotonicTime{}));
  watched_.emplace(cgroup, std::move(watched));
  return {};
}

void ThrottleReader::forget(CgroupId cgroup) {
  watched_.erase(cgroup);  // its descriptor is closed, which removes it from the epoll set
}

std::vector<CgroupId> ThrottleReader::take_events() {
  std::array<epoll_event, 64> events;
  std::vector<CgroupId> cgroups;
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    cgroups.push_back(
        static_cast<const Watched*>(events[static_cast<std::size_t>(i)].data.ptr)->cgroup);
  }
  return cgroups;
}

Result<void> ThrottleReader::arm(CgroupId cgroup) {
  Watched& watched = *watched_.at(cgroup);
  epoll_event event{};
  event.events = kOneEvent;
  event.data.ptr = &watched;
  const int operation = watched.in_epoll ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
  if (::epoll_ctl(epoll_.get(), operation, watched.events.fd(), &event) != 0) {
    return errno_error("epoll_ctl", watched.events.name());
  }
  watched.in_epoll = true;
  return {};
}

Result<ThrottleReading> ThrottleReader::read(CgroupId cgroup, MonotonicTime now) {
  return read(*watched_.at(cgroup), now);
}

Result<ThrottleReading> ThrottleReader::read(const Watched& watched, MonotonicTime now) {
  const std::string& path = watched.directory.path();
  ThrottleReading reading{now, {}, 0, {}};
  const auto events = TRY(watched.events.read(buffer_));
  const auto counts = TRY(kernel::parse_memory_events(events));
  if (!counts.high) return error(watched.events.name() + " has no \"high\"");
  reading.high_events = *counts.high;
  reading.usage = TRY(kernel::read_usage(watched.directory));
  const auto pressure = TRY(watched.directory.read("memory.pressure"));
  const auto psi = TRY(kernel::parse_psi(pressure));
  if (!psi.full) return error(path + "/memory.pressure has no \"full\"");
  reading.full_stall = psi.full->total;
  return reading;
}

}  // namespace forestall::sources
