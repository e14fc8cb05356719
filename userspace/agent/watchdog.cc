// SPDX-License-Identifier: Apache-2.0
#include "agent/watchdog.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "kernel/scheduling.h"
#include "policy/signals.h"
#include "sources/cgroup_reader.h"
#include "sources/node_reader.h"

namespace forestall::agent {
namespace {

// Between two reads of the subjects in the zone.
constexpr Duration kPace = std::chrono::milliseconds(125);

enum class Claim : std::uint8_t { open, by_loop, by_thread };

timespec to_timespec(Duration duration) {
  const auto ns = std::max(duration, Duration::zero()).count();
  return {static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
}

}  // namespace

// An order with the files of its subject: the thread's, once it is posted.
struct Watchdog::Post {
  Order order;
  std::optional<sources::NodeReader> node;
  std::optional<sources::CgroupReader> group;

  bool own_limit = false;  // its capacity is the cgroup's limit
  std::optional<MetSince> met_since;

  // False: the files of its subject cannot be opened.
  [[nodiscard]] bool open(const kernel::CgroupTree& tree, std::string& buffer) {
    if (order.cgroup == CgroupId{}) {
      auto opened = sources::NodeReader::open(tree, "/proc");
      if (opened.ok()) node = std::move(*opened);
      return node.has_value();
    }
    auto opened = sources::CgroupReader::open_with_limit(tree, order.path);
    if (!opened.ok() || opened->cgroup().id() != order.cgroup) return false;
    std::vector<SourceNote> notes;
    own_limit = opened->read(buffer, notes).limit == order.capacity;
    group = std::move(*opened);
    return true;
  }
  // Nothing if swap was added or removed: the order is for another capacity then.
  [[nodiscard]] std::optional<Bytes> used_by_meminfo(const NodeSample& sample) const {
    const auto level = policy::level_of(order.signal, sample);
    if (!level || level->capacity != order.capacity) return std::nullopt;
    return level->used();
  }
  // The subject's working set. Nothing: unknown, removed, or its limit is not the order's capacity.
  [[nodiscard]] std::optional<Bytes> read(std::string& buffer) const {
    std::vector<SourceNote> notes;
    if (node) {
      const NodeSample sample = node->read(buffer, notes);
      if (row_of(order.signal).watch == SignalWatch::meminfo) return used_by_meminfo(sample);
      if (!sample.usage || !sample.inactive_file) return std::nullopt;
      return working_set(*sample.usage, *sample.inactive_file);
    }
    const auto reading = group->read(buffer, notes);
    if (!reading.usage || !reading.inactive_file) return std::nullopt;
    if (own_limit && reading.limit != order.capacity) return std::nullopt;
    return working_set(*reading.usage, *reading.inactive_file);
  }
};

struct Watchdog::Orders {
  std::vector<Post> posts;
  MonotonicTime until;
  // The thread's, once they are posted.
  bool opened = false;
  std::uint64_t guard_fired = 0;
  MonotonicTime quiet_until;
  std::atomic<Claim> claim{Claim::open};

  [[nodiscard]] bool take(Claim mine) {
    Claim expected = Claim::open;
    return claim.compare_exchange_strong(expected, mine);
  }
};

Result<std::unique_ptr<Watchdog>> Watchdog::create(const kernel::CgroupTree& tree,
                                                   const Clock& clock, bool real_time,
                                                   Duration patience) {
  UniqueFd changed(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!changed) return errno_error("eventfd", "for the watchdog");
  UniqueFd fired(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!fired) return errno_error("eventfd", "for the watchdog");
  auto reaper = TRY(actuators::ReaperPool::create(1, actuators::PinnedProcesses::kProcessesMax));
  return std::unique_ptr<Watchdog>(new Watchdog(
      tree, clock, real_time, patience, std::move(changed), std::move(fired), std::move(reaper)));
}

Watchdog::Watchdog(const kernel::CgroupTree& tree, const Clock& clock, bool real_time,
                   Duration patience, UniqueFd changed, UniqueFd fired,
                   std::unique_ptr<actuators::ReaperPool> reaper)
    : tree_(tree),
      clock_(clock),
      real_time_(real_time),
      patience_(patience),
      changed_(std::move(changed)),
      fired_(std::move(fired)),
      reaper_(std::move(reaper)),
      thread_([this] { serve(); }) {}

Watchdog::~Watchdog() {
  stopping_ = true;
  ::eventfd_write(changed_.get(), 1);
  thread_.join();
}

// ---- the loop's side ----

void Watchdog::post(std::vector<Order> orders, MonotonicTime until) {
  auto fresh = std::make_shared<Orders>();
  fresh->until = until;
  if (guard_fired_) fresh->guard_fired = guard_fired_();
  for (Order& order : orders) {
    if (order.pinned == nullptr) continue;
    fresh->posts.emplace_back().order = std::move(order);
  }
  if (fresh->posts.empty()) return withdraw();
  replace(std::move(fresh));
}

void Watchdog::withdraw() {
  if (current() != nullptr) replace(nullptr);
}

void Watchdog::replace(std::shared_ptr<Orders> orders) {
  {
    const std::lock_guard lock(mutex_);
    orders_.swap(orders);
    // The thread may be about to act on the former ones.
    if (orders && !orders->take(Claim::by_loop) && orders->claim == Claim::by_thread) {
      acted_on_ = orders;
    }
    if (orders) retired_.push_back(std::move(orders));
  }
  ::eventfd_write(changed_.get(), 1);
}

std::shared_ptr<Watchdog::Orders> Watchdog::current() {
  const std::lock_guard lock(mutex_);
  return orders_;
}

bool Watchdog::claim() {
  if (acted_on_ != nullptr && acted_on_->claim == Claim::by_thread) return false;
  acted_on_.reset();
  const auto orders = current();
  return orders == nullptr || orders->take(Claim::by_loop) || orders->claim == Claim::by_loop;
}

std::optional<KillRequest> Watchdog::take_kill() {
  eventfd_t ignored = 0;
  if (::eventfd_read(fired_.get(), &ignored) != 0) return std::nullopt;
  withdraw();
  std::optional<WatchdogKill> kill;
  {
    const std::lock_guard lock(mutex_);
    kill = std::exchange(kill_, std::nullopt);
  }
  if (!kill) return std::nullopt;
  acted_on_.reset();
  return to_request(*kill);
}

// ---- the thread's ----

void Watchdog::serve() {
  if (real_time_) kernel::use_watchdog_priority();
  while (!stopping_) {
    drop_retired();
    const auto orders = current();
    const bool on_watch = orders != nullptr && orders->claim == Claim::open;
    if (on_watch) watch(*orders);
    pollfd woken{changed_.get(), POLLIN, 0};
    const timespec pace = to_timespec(std::min(kPace, patience_ / 2));
    ::ppoll(&woken, 1, on_watch ? &pace : nullptr, nullptr);
    eventfd_t ignored = 0;
    ::eventfd_read(changed_.get(), &ignored);
  }
}

void Watchdog::drop_retired() {
  std::vector<std::shared_ptr<Orders>> closed;  // after the lock is released
  {
    const std::lock_guard lock(mutex_);
    closed.swap(retired_);
  }
}

void Watchdog::open(Orders& orders) {
  orders.opened = true;
  std::erase_if(orders.posts, [&](Post& post) { return !post.open(tree_, buffer_); });
}

void Watchdog::watch(Orders& orders) {
  if (!orders.opened) open(orders);
  const MonotonicTime now = clock_.now();
  if (now >= orders.until || defers_to_guard(orders, now) || has_untaken_kill()) return;
  for (Post& post : orders.posts) {
    const auto used = post.read(buffer_);
    if (!used || *used <= post.order.floor_line) {
      post.met_since.reset();
      continue;
    }
    if (!post.met_since) post.met_since = {now, evaluations_.load(std::memory_order_relaxed)};
    if (loop_is_late(*post.met_since, now)) return act(orders, post, *used);
  }
}

// One crossing must have one victim. The count is enough here: only the loop reads the reports.
bool Watchdog::defers_to_guard(Orders& orders, MonotonicTime now) const {
  if (!guard_fired_) return false;
  const std::uint64_t fired = guard_fired_();
  if (std::exchange(orders.guard_fired, fired) != fired) {
    orders.quiet_until = now + kGuardRelease;
    for (Post& post : orders.posts) post.met_since.reset();
  }
  return now < orders.quiet_until;
}

bool Watchdog::loop_is_late(const MetSince& met_since, MonotonicTime now) const {
  if (now - met_since.since < patience_) return false;
  const bool unseen = evaluations_.load(std::memory_order_relaxed) == met_since.evaluations;
  return unseen || next_evaluation_ns_.load() < to_ns(now) - patience_.count();
}

// Another kill would replace it, and its record would be lost.
bool Watchdog::has_untaken_kill() {
  const std::lock_guard lock(mutex_);
  return kill_.has_value();
}

void Watchdog::act(Orders& orders, const Post& post, Bytes working_set) {
  const actuators::PinnedProcesses& pinned = *post.order.pinned;
  const auto members = pinned.members();
  if (!members.ok()) return;
  WatchdogKill kill;
  kill.working_set = working_set;
  kill.met = post.met_since->since;
  actuators::Signalled& signalled = kill.signalled;
  if (pinned.meter() != nullptr) {
    signalled.usage_before = pinned.meter()->read().optional().value_or(Bytes{0});
  }
  if (!orders.take(Claim::by_thread)) return;
  // The loop may have evaluated since it was found late, and have had a reason not to kill.
  if (!loop_is_late(*post.met_since, clock_.now())) return orders.claim.store(Claim::open);
  if (postpone_guard_) {
    postpone_guard_();
    // It fired before it was postponed.
    if (defers_to_guard(orders, clock_.now())) return orders.claim.store(Claim::open);
  }
  const auto killed = pinned.kill(*members, clock_);
  // No pinned process was left: the order is void, and there is no kill.
  if (!killed.at) return orders.claim.store(Claim::by_loop);
  signalled.at = *killed.at;
  signalled.processes = killed.count;
  kill.order = post.order;
  hand_over(std::move(kill));
  release(pinned);
}

// At this thread's real-time priority, freeing gigabytes would starve the machine, and another
// crossing would wait for it. What is not submitted here is freed by its process, only later.
void Watchdog::release(const actuators::PinnedProcesses& pinned) {
  reaped_.clear();
  reaper_->drain(reaped_);
  for (const kernel::ProcessRef& process : pinned.processes()) {
    auto copy = process.duplicate();
    if (!copy.ok() || !reaper_->submit({0, std::move(*copy)})) return;
  }
}

KillRequest Watchdog::to_request(const WatchdogKill& kill) {
  const Order& order = kill.order;
  const MonotonicTime at = kill.signalled.at;
  KillRequest request;
  request.origin = KillOrigin::watchdog;
  request.stages = {kill.met, at, at, at};
  request.observation.at = at;
  request.set_crossing(order.cgroup, kill.working_set, kill.met);
  const Bytes limit = order.capacity - order.floor_line;
  Evidence evidence;
  evidence.threshold.signal = order.signal;
  evidence.threshold.limit = Limit::bytes(limit);
  evidence.subject = order.cgroup == CgroupId{} ? "node" : order.path;
  evidence.cgroup = order.cgroup;
  evidence.capacity = order.capacity.count;
  evidence.available = (order.capacity - kill.working_set).count;
  evidence.limit = binary(limit.count);
  evidence.met = evidence.driving = true;
  evidence.at = at;
  evidence.first_met = kill.met;
  request.decision.evidence = {std::move(evidence)};
  request.decision.driving = 0;
  request.decision.considered = {order.victim};
  request.set_victim(0);
  request.signalled = kill.signalled;
  return request;
}

void Watchdog::hand_over(WatchdogKill kill) {
  {
    const std::lock_guard lock(mutex_);
    kill_ = std::move(kill);
  }
  ::eventfd_write(fired_.get(), 1);
}

}  // namespace forestall::agent
