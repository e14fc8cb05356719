// SPDX-License-Identifier: Apache-2.0
// All kills of this agent: one epoll for their events and one pool of reapers.
#include "actuators/ladder.h"

#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>

#include "actuators/never_kill.h"
#include "actuators/pinned_victims.h"
#include "actuators/reaper_pool.h"
#include "actuators/suspended_times.h"
#include "actuators/victim.h"
#include "kernel/probe_child.h"

namespace forestall::actuators {
namespace {

constexpr std::size_t kEventsPerWait = 64;
// Waits per advance(). If more processes exit at once, the rest is read in the next iteration of
// the loop, since the epoll is level-triggered.
constexpr int kWaitsPerAdvance = 16;
// Victims whose cgroup.kill waits.
constexpr std::size_t kGroupKillsMax = 64;
// Victims whose leftover memory waits for reclaim.
constexpr std::size_t kReclaimsMax = 64;
constexpr Bytes kWarmUpMemory = mib(1);
constexpr Duration kWarmUpPatience = std::chrono::seconds(2);
// process_mrelease waits for the victim's mmap lock, which a process holds during a fork: in a fork
// bomb it waits as long as that process waits for a CPU. Other threads free the memory of the
// others meanwhile, so there are more threads than CPUs.
constexpr std::size_t kReapersPerCpu = 2, kReapersMin = 4, kReapersMax = 16;
// Key of the reapers' eventfd; victims count from 1.
constexpr EventKey kReports{0, 0};

std::size_t default_reaper_threads() {
  const long cpus = std::max(::sysconf(_SC_NPROCESSORS_ONLN), 1L);
  return std::clamp(kReapersPerCpu * static_cast<std::size_t>(cpus), kReapersMin, kReapersMax);
}

}  // namespace

class Ladder::Machine {
 public:
  Machine(const kernel::CgroupTree& tree, const Clock& clock, LadderOptions options,
          std::unique_ptr<ReaperPool> reapers, std::unique_ptr<ReaperPool> group_killer,
          std::unique_ptr<ReaperPool> reclaimer, std::unique_ptr<ReaperPool> left_behind_pool,
          std::unique_ptr<PinnedVictims> pinned, UniqueFd epoll)
      : options_(std::move(options)),
        never_kill_(NeverKill::of_this_process()),
        reapers_(std::move(reapers)),
        group_killer_(std::move(group_killer)),
        reclaimer_(std::move(reclaimer)),
        left_behind_pool_(std::move(left_behind_pool)),
        pinned_(std::move(pinned)),
        epoll_(std::move(epoll)),
        context_{tree,        clock,        never_kill_, *reapers_, *group_killer_,
                 *reclaimer_, epoll_.get(), suspended_,  lister_,   held_},
        left_behind_(tree, clock, *left_behind_pool_) {
    note_suspends();
    // The warm-up then also reads what the check of threads needs.
    protect(std::make_shared<const ProtectedGroups>(std::vector<ProtectedGroup>()));
  }

  void set_options(const LadderOptions& options) { options_ = options; }
  void list_processes_by(ProcessLister lister) { lister_ = std::move(lister); }
  void take_cgroups_from(HeldCgroups held) { held_ = std::move(held); }
  [[nodiscard]] bool dry_run() const { return options_.dry_run; }
  void protect(std::shared_ptr<const ProtectedGroups> groups) {
    const ProtectedGroups* before = never_kill_.protected_groups();
    if (before == nullptr || before->all() != groups->all()) pinned_->release();
    never_kill_.protect(std::move(groups));
  }
  [[nodiscard]] int fd() const { return epoll_.get(); }
  void note_suspends() {
    // Read first: a suspend between the two then counts for the next time.
    const Duration suspended = suspended_since_boot();
    suspended_.note(context_.clock.now(), suspended);
  }

  bool begin(const WorkloadSample& sample, Duration grace, const Signalled* by_other = nullptr);
  bool repeat(const WorkloadSample& sample);
  bool complete(const WorkloadSample& sample, const Signalled& signalled);
  bool reclaim(const WorkloadSample& sample) {
    return !options_.dry_run && left_behind_.start(sample);
  }
  [[nodiscard]] std::vector<Reclaimed> take_reclaimed() { return left_behind_.take(); }
  bool pin(std::vector<Workload> victims);
  [[nodiscard]] PinnedVictims& pinned() { return *pinned_; }
  void advance();
  [[nodiscard]] std::optional<MonotonicTime> next_due() const;
  [[nodiscard]] std::vector<KillProgress> progress() const;
  [[nodiscard]] std::uint32_t signalled(CgroupId cgroup) const;
  [[nodiscard]] std::vector<Outcome> take_outcomes() { return std::exchange(outcomes_, {}); }
  [[nodiscard]] Result<void> warm_up();

 private:
  Victim& add(const WorkloadSample& sample, const LadderOptions& options,
              std::optional<pid_t> only);
  [[nodiscard]] Victim* find(std::uint32_t number);
  [[nodiscard]] auto victim_of(CgroupId cgroup) const {
    return std::ranges::find(victims_, cgroup, [](const auto& each) { return each->cgroup(); });
  }
  void drain_events();
  void drain_reports();
  void collect();
  void refuse_second(const WorkloadSample& sample);

  LadderOptions options_;
  NeverKill never_kill_;
  const std::unique_ptr<ReaperPool> reapers_;
  const std::unique_ptr<ReaperPool> group_killer_;
  const std::unique_ptr<ReaperPool> reclaimer_;
  // A tenant decides how long such a reclaim takes; that of a victim must not wait for it.
  const std::unique_ptr<ReaperPool> left_behind_pool_;
  const std::unique_ptr<PinnedVictims> pinned_;
  const UniqueFd epoll_;
  SuspendedTimes suspended_;
  ProcessLister lister_;
  HeldCgroups held_ = [](CgroupId) { return std::nullopt; };
  const VictimContext context_;
  LeftBehindReclaim left_behind_;

  std::uint32_t last_number_ = 0;
  // Declared after the members they use: a victim leaves the epoll in its destructor.
  std::vector<std::unique_ptr<Victim>> victims_;
  std::vector<ReapReport> reports_;
  std::vector<Outcome> outcomes_;
};

bool Ladder::Machine::begin(const WorkloadSample& sample, Duration grace,
                            const Signalled* by_other) {
  const auto same = victim_of(sample.workload.cgroup);
  bool afresh = true;
  if (same != victims_.end()) {
    if ((*same)->progress().state == KillState::terminating) {
      // A dry run began since: the earlier decision stays as it was, and this one sends nothing.
      if (!options_.dry_run) (*same)->cut_grace(grace);
      collect();
      return false;
    }
    if ((*same)->progress().state == KillState::in_flight && (*same)->under_way()) {
      refuse_second(sample);
      return false;
    }
    // The new attempt replaces the earlier one. What a dry run decided on is still in flight.
    afresh = (*same)->progress().state != KillState::in_flight;
    victims_.erase(same);
  }
  Victim& victim = add(sample, options_, std::nullopt);
  if (by_other != nullptr) {
    victim.complete(*by_other);
  } else {
    victim.begin(grace);
  }
  collect();
  return afresh;
}

bool Ladder::Machine::repeat(const WorkloadSample& sample) {
  const auto same = victim_of(sample.workload.cgroup);
  if (same == victims_.end() || options_.dry_run) return false;
  const Victim* earlier = same->get();
  const Outcome& ended = earlier->record();
  if (ended.dry_run || ended.state != KillState::released || !ended.exited) return false;
  Victim& again = add(sample, options_, std::nullopt);
  again.repeat(earlier->progress());
  const bool signalled = again.record().signalled.has_value();
  // Without a signal the earlier kill stays, and may be repeated later.
  const Victim* dropped = signalled ? earlier : &again;
  std::erase_if(victims_, [&](const auto& victim) { return victim.get() == dropped; });
  collect();
  return signalled;
}

Victim& Ladder::Machine::add(const WorkloadSample& sample, const LadderOptions& options,
                             std::optional<pid_t> only) {
  if (++last_number_ == 0) ++last_number_;
  victims_.push_back(std::make_unique<Victim>(context_, last_number_, sample, options, only,
                                              pinned_->of(sample.workload.cgroup)));
  return *victims_.back();
}

bool Ladder::Machine::complete(const WorkloadSample& sample, const Signalled& signalled) {
  const bool afresh = std::ranges::none_of(victims_, [&](const auto& victim) {
    return victim->cgroup() == sample.workload.cgroup && victim->under_way() &&
           victim->progress().state == KillState::in_flight;
  });
  if (afresh) begin(sample, Duration::zero(), &signalled);
  for (const auto& victim : victims_) {
    if (victim->cgroup() == sample.workload.cgroup) victim->add_signalled(signalled);
  }
  // It may already have ended, with its outcome not yet taken.
  for (Outcome& outcome : outcomes_) {
    if (outcome.victim.cgroup == sample.workload.cgroup) actuators::add(signalled, outcome);
  }
  return afresh;
}

bool Ladder::Machine::pin(std::vector<Workload> victims) {
  if (!has(options_.usable, Feature::pidfd)) return false;
  pinned_->pin(std::move(victims), never_kill_);
  return true;
}

void Ladder::Machine::refuse_second(const WorkloadSample& sample) {
  Outcome refused;
  refused.victim = sample.workload;
  refused.state = KillState::failed;
  refused.began = context_.clock.now();
  refused.usage_before = sample.usage.value_or(Bytes{0});
  refused.attempts.push_back(
      {Rung::verify, refused.began, 0, Error{EALREADY, "a kill of this cgroup is under way"}});
  outcomes_.push_back(std::move(refused));
}

Victim* Ladder::Machine::find(std::uint32_t number) {
  const auto found =
      std::ranges::find(victims_, number, [](const auto& victim) { return victim->number(); });
  return found == victims_.end() ? nullptr : found->get();
}

void Ladder::Machine::drain_events() {
  std::array<epoll_event, kEventsPerWait> events;
  for (int wait = 0; wait < kWaitsPerAdvance; ++wait) {
    const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), 0);
    if (count <= 0) return;
    for (int i = 0; i < count; ++i) {
      const auto key = EventKey::unpack(events[static_cast<std::size_t>(i)].data.u64);
      if (key.pack() == kReports.pack()) {
        drain_reports();
      } else if (Victim* victim = find(key.victim)) {
        victim->on_event(key.index);
      }
    }
    if (count < static_cast<int>(events.size())) return;
  }
}

void Ladder::Machine::drain_reports() {
  reports_.clear();
  reapers_->drain(reports_);
  group_killer_->drain(reports_);
  reclaimer_->drain(reports_);
  left_behind_pool_->drain(reports_);
  for (const ReapReport& report : reports_) {
    const auto key = EventKey::unpack(report.ticket);
    if (key.victim == 0) left_behind_.on_report(key.index, report);
    if (Victim* victim = find(key.victim)) victim->on_report(key.index, report);
  }
}

void Ladder::Machine::advance() {
  drain_events();
  for (const auto& victim : victims_) victim->check();
  collect();
}

// Outcomes first: a finished kill is forgotten only after its outcome was taken.
void Ladder::Machine::collect() {
  for (const auto& victim : victims_) {
    if (auto outcome = victim->take_outcome()) outcomes_.push_back(std::move(*outcome));
  }
  std::erase_if(victims_, [](const auto& victim) { return victim->forgettable(); });
}

std::optional<MonotonicTime> Ladder::Machine::next_due() const {
  std::optional<MonotonicTime> next;
  for (const auto& victim : victims_) {
    const auto due = victim->next_due();
    if (due && (!next || *due < *next)) next = due;
  }
  return next;
}

std::vector<KillProgress> Ladder::Machine::progress() const {
  std::vector<KillProgress> all;
  all.reserve(victims_.size());
  for (const auto& victim : victims_) all.push_back(victim->progress());
  return all;
}

std::uint32_t Ladder::Machine::signalled(CgroupId cgroup) const {
  const auto found = victim_of(cgroup);
  return found == victims_.end() ? 0 : (*found)->record().processes;
}

// Kills a child process in the agent's own cgroup, and nothing else there, with the code that kills
// a victim. Memory does not decide its end, because the agent's own usage changes too.
Result<void> Ladder::Machine::warm_up() {
  if (!victims_.empty()) return Error{EBUSY, "warm-up while a kill is under way"};
  auto child = TRY(kernel::ProbeChild::start(kWarmUpMemory));
  WorkloadSample sample;
  sample.workload.path = TRY(context_.tree.path_of(getpid()));
  sample.workload.cgroup = TRY(context_.tree.open(sample.workload.path)).id();
  // Pins the processes of the cgroup and releases them at once; the others there get no signal.
  pinned_->pin({sample.workload}, never_kill_);
  pollfd pinned{pinned_->fd(), POLLIN, 0};
  (void)::poll(&pinned, 1, static_cast<int>(kWarmUpPatience / std::chrono::milliseconds(1)));
  (void)pinned_->collect();
  pinned_->release();
  LadderOptions options = options_;
  options.dry_run = false;
  options.release_timeout = kWarmUpPatience;
  add(sample, options, child.pid()).begin(Duration::zero());
  const auto ended = child.wait_end(kWarmUpPatience);
  advance();
  (void)next_due();
  (void)progress();
  // Only this kill can exist; it may have ended, or wait for usage that other threads raised.
  if (!victims_.empty()) outcomes_.push_back(victims_.back()->record());
  victims_.clear();
  const auto outcomes = take_outcomes();
  for (const Attempt& attempt : outcomes.front().attempts) {
    if (attempt.failure)
      return attempt.failure->in("warm-up: " + std::string(to_string(attempt.rung)));
  }
  if (!ended.ok()) return ended.error();
  return {};
}

// ---- the interface ----

Result<std::unique_ptr<Ladder>> Ladder::create(const kernel::CgroupTree& tree, const Clock& clock,
                                               LadderOptions options) {
  const std::size_t threads =
      options.reaper_threads > 0 ? options.reaper_threads : default_reaper_threads();
  auto reapers = TRY(ReaperPool::create(threads, options.reaper_queue_max));
  auto group_killer = TRY(ReaperPool::create(1, kGroupKillsMax));
  auto reclaimer = TRY(ReaperPool::create(1, kReclaimsMax));
  auto left_behind = TRY(ReaperPool::create(1, 1));
  auto pinned = TRY(PinnedVictims::create(tree));
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return errno_error("epoll_create1", "for the ladder");
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kReports.pack();
  for (const int fd : {reapers->fd(), group_killer->fd(), reclaimer->fd(), left_behind->fd()}) {
    if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
      return errno_error("epoll_ctl", "the reapers' eventfd");
    }
  }
  return std::unique_ptr<Ladder>(new Ladder(std::make_unique<Machine>(
      tree, clock, std::move(options), std::move(reapers), std::move(group_killer),
      std::move(reclaimer), std::move(left_behind), std::move(pinned), std::move(epoll))));
}

Ladder::Ladder(std::unique_ptr<Machine> machine) : machine_(std::move(machine)) {}
Ladder::~Ladder() = default;

void Ladder::set_options(const LadderOptions& options) {
  machine_->set_options(options);
}
bool Ladder::dry_run() const {
  return machine_->dry_run();
}
void Ladder::protect(std::shared_ptr<const ProtectedGroups> groups) {
  machine_->protect(std::move(groups));
}
void Ladder::list_processes_by(ProcessLister lister) {
  machine_->list_processes_by(std::move(lister));
}
void Ladder::take_cgroups_from(HeldCgroups held) {
  machine_->take_cgroups_from(std::move(held));
}
bool Ladder::begin(const WorkloadSample& victim, Duration grace) {
  return machine_->begin(victim, grace);
}
bool Ladder::repeat(const WorkloadSample& victim) {
  return machine_->repeat(victim);
}
bool Ladder::complete(const WorkloadSample& victim, const Signalled& signalled) {
  return machine_->complete(victim, signalled);
}
bool Ladder::reclaim(const WorkloadSample& left_behind) {
  return machine_->reclaim(left_behind);
}
std::vector<Reclaimed> Ladder::take_reclaimed() {
  return machine_->take_reclaimed();
}
bool Ladder::pin(std::vector<Workload> victims) {
  return machine_->pin(std::move(victims));
}
bool Ladder::pinning() const {
  return machine_->pinned().pinning();
}
int Ladder::pins_fd() const {
  return machine_->pinned().fd();
}
bool Ladder::collect_pins() {
  return machine_->pinned().collect();
}
void Ladder::release_pins() {
  machine_->pinned().release();
}
std::shared_ptr<const PinnedProcesses> Ladder::pinned_of(CgroupId cgroup) const {
  return machine_->pinned().of(cgroup);
}
void Ladder::note_suspends() {
  machine_->note_suspends();
}
int Ladder::fd() const {
  return machine_->fd();
}
std::optional<MonotonicTime> Ladder::next_due() const {
  return machine_->next_due();
}
void Ladder::advance() {
  machine_->advance();
}
std::vector<KillProgress> Ladder::progress() const {
  return machine_->progress();
}
std::uint32_t Ladder::signalled(CgroupId cgroup) const {
  return machine_->signalled(cgroup);
}
std::vector<Outcome> Ladder::take_outcomes() {
  return machine_->take_outcomes();
}
Result<void> Ladder::warm_up() {
  return machine_->warm_up();
}

}  // namespace forestall::actuators
