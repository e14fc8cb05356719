// SPDX-License-Identifier: Apache-2.0
#include "agent/rank_door.h"

#include <linux/close_range.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <limits>
#include <set>
#include <utility>

#include "agent/rank_report.h"
#include "api/convert.h"
#include "api/own_settings.h"
#include "base/start_thread.h"
#include "exports/blocked_signals.h"
#include "policy/rank.h"
#include "policy/step.h"
#include "sources/observer.h"

namespace forestall::agent {
namespace {

constexpr int kNice = 10;

// The thread keeps these, the standard streams and what it opens itself. Before Linux 5.9 it shares
// the agent's table, and its descriptors count against the agent's limit.
void leave_descriptors(std::set<int> kept) {
  unsigned from = STDERR_FILENO + 1;
  unsigned flags = CLOSE_RANGE_UNSHARE;
  kept.insert(std::numeric_limits<int>::max());
  for (const int fd : kept) {
    const auto next = static_cast<unsigned>(fd);
    if (fd < static_cast<int>(from)) continue;
    if (next > from && ::syscall(SYS_close_range, from, next - 1, flags) != 0) return;
    if (next > from) flags = 0;  // unsharing once is enough
    from = next + 1;
  }
}

// Walks the pods' files on disk, however long that takes: a request for a disk signal waits for it.
Result<void> walk_disks(sources::Observer& observer, int stop_fd) {
  const SystemClock clock;
  observer.ask_disk_usage(clock.now());
  sources::DiskWalker& walker = observer.disk_walker();
  while (!walker.collect(clock.now())) {
    std::array<pollfd, 2> fds{{{walker.fd(), POLLIN, 0}, {stop_fd, POLLIN, 0}}};
    if (::poll(fds.data(), fds.size(), -1) < 0 && errno != EINTR) {
      return errno_error("poll", "the disk walk");
    }
    if (fds[1].revents != 0) return Error{ECANCELED, "the agent is shutting down"};
  }
  return {};
}

// Where the configuration ranks by the kernel's points, processes are read from /proc: the BPF scan
// belongs to the loop.
Result<Observation> observe(const kernel::CgroupTree& tree, const Config& config, bool on_disk,
                            int stop_fd) {
  std::unique_ptr<sources::ProcessSource> processes;
  if (config.ranking == Ranking::kernel) processes = TRY(sources::proc_process_source(tree));
  const auto observer = TRY(sources::Observer::create(tree, config));
  observer->set_processes(processes.get());
  auto notes = observer->refresh();
  if (on_disk) TRY(walk_disks(*observer, stop_fd));
  const MonotonicTime now = SystemClock().now();
  Observation observation = observer->observe(Wake{WakeSource::command, now, {}, {}}, now);
  observer->add_workloads(observation, {});
  if (on_disk) observer->add_statistics(observation);
  for (SourceNote& note : notes) observation.notes.push_back(std::move(note));
  return observation;
}

// Without the workloads, which the order contains.
v1::SignalsReport signals_of(const Config& config, Observation& observation) {
  auto workloads = std::exchange(observation.workloads, std::nullopt);
  v1::SignalsReport signals;
  *signals.mutable_observation() = api::to_proto(observation);
  for (const Evidence& each : policy::step(config, {}, observation).decision.evidence) {
    *signals.add_signals() = api::to_proto(each);
  }
  observation.workloads = std::move(workloads);
  return signals;
}

Result<v1::RankResponse> rank(const kernel::CgroupTree& tree, Config config,
                              const v1::RankRequest& request, int stop_fd) {
  if (!request.ranking().empty()) {
    const auto ranking = api::parse_ranking(request.ranking());
    if (!ranking) return Error{EINVAL, "unknown ranking '" + request.ranking() + "'"};
    config.ranking = *ranking;
  }
  policy::RankBy by{Signal::memory_available, std::nullopt, config.compat, config.ranking};
  if (!request.signal().empty()) {
    const auto signal = parse_signal(request.signal());
    if (!signal) return Error{EINVAL, "unknown signal '" + request.signal() + "'"};
    by.signal = *signal;
  }
  timespec wall{};
  ::clock_gettime(CLOCK_REALTIME, &wall);
  Observation observation =
      TRY(observe(tree, config, filesystem_of(by.signal).has_value(), stop_fd));
  by.layout = observation.filesystems.layout;
  v1::RankResponse response;
  *response.mutable_signals() = signals_of(config, observation);
  response.set_ranking(std::string(api::ranking_word(config.ranking)));
  keep_rankable(by.signal, *observation.workloads);
  const policy::Exclusions exclusions(*observation.workloads, observation.kills);
  const auto order = policy::rank(*observation.workloads, by, {}, exclusions);
  *response.mutable_report() = rank_report(order, by, by.layout ? "host" : "default");
  response.mutable_read_at()->set_seconds(wall.tv_sec);
  response.mutable_read_at()->set_nanos(static_cast<std::int32_t>(wall.tv_nsec));
  for (const SourceNote& note : observation.notes) *response.add_notes() = api::to_proto(note);
  return response;
}

}  // namespace

Result<std::unique_ptr<HostRankDoor>> HostRankDoor::create(const kernel::CgroupTree& tree,
                                                           ConfigInForce config) {
  UniqueFd done(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  UniqueFd stop(eventfd(0, EFD_CLOEXEC));
  if (!done || !stop) return errno_error("eventfd", "for rankings");
  return std::unique_ptr<HostRankDoor>(
      new HostRankDoor(tree, std::move(config), std::move(done), std::move(stop)));
}

HostRankDoor::~HostRankDoor() {
  eventfd_write(stop_.get(), 1);
  if (thread_.joinable()) thread_.join();
}

bool HostRankDoor::ask(const v1::RankRequest& request) {
  if (thread_.joinable() || answer_) return false;
  auto config = config_();
  const exports::BlockedSignals blocked;
  auto made = start_thread("forestall-rank",
                           [this, request, config = std::move(config)] { run(request, config); });
  if (made) {
    thread_ = std::move(made).value();
    pthread_setname_np(thread_.native_handle(), "forestall-rank");
  } else {
    answer_ = Result<v1::RankResponse>(made.error());
    (void)eventfd_write(done_.get(), 1);
  }
  return true;
}

void HostRankDoor::run(const v1::RankRequest& request,
                       const std::shared_ptr<const Config>& config) {
  // 0: this thread only.
  ::setpriority(PRIO_PROCESS, 0, kNice);
  leave_descriptors({done_.get(), stop_.get(), tree_.memory_fd(), tree_.unified_fd()});
  if (config == nullptr) {
    answer_ = Result<v1::RankResponse>(error("the agent has not evaluated yet; try again"));
  } else {
    answer_ = rank(tree_, *config, request, stop_.get());
  }
  (void)eventfd_write(done_.get(), 1);
}

std::optional<Result<v1::RankResponse>> HostRankDoor::answer() {
  eventfd_t count = 0;
  if (eventfd_read(done_.get(), &count) != 0) return std::nullopt;
  if (thread_.joinable()) thread_.join();
  return std::exchange(answer_, std::nullopt);
}

}  // namespace forestall::agent
