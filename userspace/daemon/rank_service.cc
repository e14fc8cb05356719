// SPDX-License-Identifier: Apache-2.0
#include "daemon/rank_service.h"

#include <linux/close_range.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <limits>
#include <set>
#include <utility>

#include "base/blocked_signals.h"
#include "base/start_thread.h"
#include "daemon/rank_report.h"
#include "messages/convert.h"
#include "policy/rank.h"
#include "policy/step.h"
#include "sources/host_sample.h"

namespace forestall::daemon {
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

// Where the configuration ranks by the kernel's points, processes are read from /proc: the BPF scan
// belongs to the loop.
Result<Observation> observe(const kernel::CgroupTree& tree, const Config& config, bool on_disk,
                            int stop_fd) {
  std::unique_ptr<sources::ProcessSource> processes;
  if (config.ranking == Ranking::kernel) processes = TRY(sources::proc_process_source(tree));
  const auto observer = TRY(sources::Observer::create(tree, config));
  observer->set_processes(processes.get());
  return sources::sample_host(*observer, {{}, on_disk, stop_fd});
}

Result<v1::RankResponse> rank(const kernel::CgroupTree& tree, Config config,
                              const v1::RankRequest& request, int stop_fd) {
  if (!request.ranking().empty()) {
    const auto ranking = messages::parse_ranking(request.ranking());
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
  const Decision decision = policy::step(config, {}, observation).decision;
  response.set_ranking(std::string(messages::ranking_word(config.ranking)));
  keep_rankable(by.signal, *observation.workloads);
  const policy::Exclusions exclusions(*observation.workloads, observation.kills);
  const auto order = policy::rank(*observation.workloads, by, {}, exclusions);
  *response.mutable_report() = rank_report(order, by, by.layout ? "host" : "default");
  response.mutable_read_at()->set_seconds(wall.tv_sec);
  response.mutable_read_at()->set_nanos(static_cast<std::int32_t>(wall.tv_nsec));
  for (const SourceNote& note : observation.notes) *response.add_notes() = messages::to_proto(note);
  *response.mutable_signals() = signals_report(std::move(observation), decision.evidence);
  return response;
}

}  // namespace

Result<std::unique_ptr<HostRankService>> HostRankService::create(const kernel::CgroupTree& tree,
                                                                 ConfigInForce config) {
  UniqueFd done(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  UniqueFd stop(eventfd(0, EFD_CLOEXEC));
  if (!done || !stop) return errno_error("eventfd", "for rankings");
  return std::unique_ptr<HostRankService>(
      new HostRankService(tree, std::move(config), std::move(done), std::move(stop)));
}

HostRankService::~HostRankService() {
  eventfd_write(stop_.get(), 1);
  if (thread_.joinable()) thread_.join();
}

bool HostRankService::request_ranking(const v1::RankRequest& request) {
  if (thread_.joinable() || answer_) return false;
  auto config = config_();
  const base::BlockedSignals blocked;
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

void HostRankService::run(const v1::RankRequest& request,
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

std::optional<Result<v1::RankResponse>> HostRankService::answer() {
  eventfd_t count = 0;
  if (eventfd_read(done_.get(), &count) != 0) return std::nullopt;
  if (thread_.joinable()) thread_.join();
  return std::exchange(answer_, std::nullopt);
}

}  // namespace forestall::daemon
