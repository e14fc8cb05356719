// SPDX-License-Identifier: Apache-2.0
// epoll does not report which trigger fired: polling a trigger consumes its event, and the loop's
// epoll, in which ours is nested, has polled it before drain() runs. Instead each file's stall
// total is compared with the one at its last report, which loses no event.
#include "sources/psi_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>

#include <array>

#include "kernel/held_file.h"
#include "kernel/memory_files.h"
#include "kernel/psi_trigger.h"

namespace forestall::sources {
namespace {

// Stall that fires, whatever the window: 10 % of 500 ms. A percentage of the window would delay the
// wake by a factor of four where only 2 s windows are allowed, where the delay hurts most. The cost
// is more idle wakes, which the kernel limits to one per window.
constexpr Duration kThreshold = std::chrono::milliseconds(50);
// Growth that counts as fired. Half of the threshold, because the kernel adds a share of the
// previous window's growth to the current one's (kernel/sched/psi.c window_update), and that share
// may already be reported.
constexpr Duration kReported = kThreshold / 2;

}  // namespace

struct PsiSource::Watch {
  CgroupId cgroup;
  std::string name;
  kernel::PsiTrigger trigger;
  Duration total{0};  // stall at the last report
  bool wanted = true;
  bool removed = false;
};

PsiSource::PsiSource(const kernel::CgroupTree& tree, UniqueFd epoll,
                     std::unique_ptr<DescriptorCloser> closer)
    : tree_(tree), epoll_(std::move(epoll)), closer_(std::move(closer)) {}

PsiSource::~PsiSource() = default;

Duration PsiSource::window() const {
  return watches_.at(CgroupId{})->trigger.window;  // the node's
}

Result<std::unique_ptr<Source>> PsiSource::create(const kernel::CgroupTree& tree,
                                                  const std::string& proc) {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return errno_error("epoll_create1", "for psi_trigger");
  auto closer = TRY(DescriptorCloser::create());
  std::unique_ptr<PsiSource> source(new PsiSource(tree, std::move(epoll), std::move(closer)));
  auto node = std::make_unique<Watch>();
  node->name = proc + "/pressure/memory";
  node->trigger =
      TRY(kernel::open_psi_trigger(AT_FDCWD, node->name.c_str(), node->name, kThreshold));
  TRY(source->add(std::move(node)));
  return std::unique_ptr<Source>(std::move(source));
}

PsiSource::Watch* PsiSource::find(CgroupId cgroup) {
  const auto found = watches_.find(cgroup);
  return found == watches_.end() ? nullptr : found->second.get();
}

Result<void> PsiSource::add(std::unique_ptr<Watch> watch) {
  const auto psi =
      kernel::parse_psi(TRY(kernel::read_whole(watch->trigger.fd.get(), buffer_, watch->name)));
  if (!psi) return psi.error().in(watch->name);
  if (psi->some) watch->total = psi->some->total;
  epoll_event event{};
  event.events = EPOLLPRI;
  event.data.ptr = watch.get();
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, watch->trigger.fd.get(), &event) != 0) {
    return errno_error("epoll_ctl", watch->name);
  }
  const CgroupId cgroup = watch->cgroup;
  watches_.emplace(cgroup, std::move(watch));
  return {};
}

Result<void> PsiSource::arm_line(const Line& line) {
  if (auto* known = find(line.cgroup)) {
    known->wanted = true;
    return {};
  }
  auto cgroup = tree_.open_unified(line.path);
  // On a hybrid host the line is of the v1 hierarchy. The cgroup2 mount need not have that path,
  // and a cgroup that it does not have has no PSI.
  if (!cgroup && tree_.hybrid() && cgroup.error().code == ENOENT) return {};
  if (!cgroup) return cgroup.error();
  auto watch = std::make_unique<Watch>();
  watch->cgroup = line.cgroup;
  watch->name = line.path + "/memory.pressure";
  watch->trigger =
      TRY(kernel::open_psi_trigger(cgroup->fd(), "memory.pressure", watch->name, kThreshold));
  return add(std::move(watch));
}

Result<std::vector<std::string>> PsiSource::arm(std::span<const Line> lines,
                                                MonotonicTime /* now */) {
  std::vector<std::string> notes;
  for (auto& [cgroup, watch] : watches_) watch->wanted = cgroup.inode == 0;
  for (const auto& line : lines) {
    if (line.cgroup.inode == 0) continue;
    const auto armed = arm_line(line);
    if (!armed) notes.push_back(fmt::format("{}: {}", line.path, armed.error().text()));
  }
  drop([](const Watch& watch) { return !watch.wanted; });
  return notes;
}

// Closing waits for RCU, so another thread does it. Until then the epoll must not report the
// trigger.
template <typename IsUnwanted>
void PsiSource::drop(IsUnwanted is_unwanted) {
  std::erase_if(watches_, [&](const auto& entry) {
    Watch& watch = *entry.second;
    if (!is_unwanted(watch)) return false;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, watch.trigger.fd.get(), nullptr);
    closer_->close(std::move(watch.trigger.fd));
    return true;
  });
}

void PsiSource::evaluate(Watch& watch, MonotonicTime now, std::vector<Wake>& wakes) {
  const auto text = kernel::read_whole(watch.trigger.fd.get(), buffer_, watch.name);
  if (!text) {
    watch.removed = watch.cgroup.inode != 0;
    return;
  }
  const auto psi = kernel::parse_psi(*text);
  if (!psi || !psi->some || psi->some->total - watch.total < kReported) return;
  watch.total = psi->some->total;
  Wake wake{WakeSource::psi_trigger, now, std::nullopt, std::nullopt};
  if (watch.cgroup.inode != 0) wake.cgroup = watch.cgroup;
  wakes.push_back(wake);
}

void PsiSource::drain(MonotonicTime now, std::vector<Wake>& wakes) {
  for (auto& [cgroup, watch] : watches_) evaluate(*watch, now, wakes);
  // Removed cgroups poll EPOLLERR without end; the only remedy is to close their triggers.
  drop([](const Watch& watch) { return watch.removed; });
  // Removes consumed triggers from the nested epoll's ready list, so that it is no longer readable.
  std::array<epoll_event, 64> ignored;
  ::epoll_wait(epoll_.get(), ignored.data(), static_cast<int>(ignored.size()), 0);
}

}  // namespace forestall::sources
