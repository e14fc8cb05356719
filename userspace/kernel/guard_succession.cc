// SPDX-License-Identifier: Apache-2.0
#include "kernel/guard_succession.h"

#include <bpf/bpf.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <set>

#include "base/parse.h"
#include "kernel/guard_turn.h"
#include "kernel/process_ref.h"
#include "model/duration.h"

namespace forestall::kernel {
namespace {

std::string name_of(std::uint32_t number, std::string_view object) {
  return fmt::format("guard-{}-{}-{}", number, ABI_GUARD_REPORTS, object);
}

// A page of a ring: the first has the position of its reader, the second that of its writers.
std::optional<std::uint64_t> ring_position(int fd, int page) {
  const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd,
                         static_cast<off_t>(size) * static_cast<off_t>(page));
  if (address == MAP_FAILED) return std::nullopt;
  const std::uint64_t position =
      __atomic_load_n(static_cast<const std::uint64_t*>(address), __ATOMIC_SEQ_CST);
  ::munmap(address, size);
  return position;
}

bool is_ring(const KeptObject& object) {
  const auto name = parse_guard_object(object.name);
  return name && name->object == "ring";
}

}  // namespace

GuardSuccession GuardSuccession::find(GuardStore* store) {
  GuardSuccession found;
  if (store == nullptr) return found;
  auto kept = store->kept();
  if (!kept) {
    found.problem_ = kept.error().text();
    // Guards in it end. One that this cannot end holds this guard back (guard_hold.h).
    const auto dropped = drop_former_guards(*store);
    if (dropped) {
      found.lost_kill_ = dropped->killed;
    } else {
      found.problem_ += "; " + dropped.error().text();
      found.lost_kill_ = SystemClock().now();
    }
    return found;
  }
  found.store_ = store;
  found.kept_ = true;
  for (KeptObject& object : *kept) {
    if (object.name == kTurnObject) {
      found.former_turn_ = std::move(object);
      continue;
    }
    const GuardObjectName name = *parse_guard_object(object.name);
    found.number_ = std::max(found.number_, name.number + 1);
    if (name.object == "ring" && name.layout != ABI_GUARD_REPORTS) {
      found.fail(
          Error{0, fmt::format("a former guard has reports of layout {}, this agent reads {}: "
                               "its kills have no record",
                               name.layout, ABI_GUARD_REPORTS)});
    }
    found.former_.push_back(std::move(object));
  }
  if (!found.former_turn_) return found;
  if (is_readable_turn(found.former_turn_->fd.get())) {
    found.share_turn();
    return found;
  }
  // It is that of a build whose guards this one cannot follow: they end before this one begins.
  found.drop_former();
  found.lost_kill_ = SystemClock().now();
  found.drop(std::string(kTurnObject));
  found.former_turn_.reset();
  return found;
}

// From now on no former guard signals this agent. The number's parity selects the bits of kills,
// which the former guard may still use.
void GuardSuccession::share_turn() {
  auto turn = MappedArray<abi_guard_turn>::map(former_turn_->fd.get(), 1, "BPF map guard_turn");
  if (!turn) return fail(turn.error());
  turn_.emplace(std::move(*turn));
  const std::uint64_t word = __atomic_load_n(&turn_->data()->holder, __ATOMIC_SEQ_CST);
  number_ = std::max(number_, holder_of(word) + 1);
  if (number_ % 2 == holder_of(word) % 2) ++number_;
  note_agent();
}

// The pid last: a guard compares only that.
void GuardSuccession::note_agent() {
  const auto own = read_process_id(::getpid());
  __atomic_store_n(&turn_->data()->last_agent_start, own ? own->start_ticks : 0, __ATOMIC_SEQ_CST);
  __atomic_store_n(&turn_->data()->last_agent, static_cast<__u32>(::getpid()), __ATOMIC_SEQ_CST);
}

int GuardSuccession::turn() const {
  return former_turn_ ? former_turn_->fd.get() : -1;
}

void GuardSuccession::fail(const Error& problem) {
  if (problem_.empty()) problem_ = problem.text();
}

void GuardSuccession::drop(const std::string& name) {
  if (const auto dropped = store_->drop(name); !dropped) fail(dropped.error());
}

void GuardSuccession::drop_former() {
  for (const KeptObject& object : former_) drop(object.name);
  former_.clear();
}

// A part of a guard may not act, or report nothing: it is all of it or none.
Result<void> GuardSuccession::keep_all(int turn, std::span<const Object> objects) {
  std::vector<std::string> kept;
  const auto keep = [&](std::string name, int fd) -> Result<void> {
    TRY(store_->keep(name, fd));
    kept.push_back(std::move(name));
    return {};
  };
  Result<void> all = former_turn_ ? Result<void>() : keep(std::string(kTurnObject), turn);
  for (const Object& object : objects) {
    if (all) all = keep(name_of(number_, object.name), object.fd);
  }
  if (!all) {
    for (const std::string& name : kept) drop(name);
    return all;
  }
  std::erase(kept, kTurnObject);
  stored_ = std::move(kept);
  stored_.emplace_back(kTurnObject);
  return {};
}

Result<void> GuardSuccession::begin(int turn, std::span<const Object> objects) {
  if (!turn_) {
    turn_.emplace(TRY(MappedArray<abi_guard_turn>::map(turn, 1, "BPF map guard_turn")));
    note_agent();
  }
  const std::uint64_t word = __atomic_load_n(&turn_->data()->holder, __ATOMIC_SEQ_CST);
  // Others never had the turn: their agents ended before they took it.
  std::erase_if(former_, [&](const KeptObject& object) {
    if (parse_guard_object(object.name)->number == holder_of(word)) return false;
    drop(object.name);
    return true;
  });
  // Left by a guard whose kills were not over when it was ended.
  __atomic_store_n(&turn_->data()->busy[number_ % 2], 0, __ATOMIC_SEQ_CST);
  if (kept_) {
    if (const auto all = keep_all(turn, objects); !all) {
      fail(all.error());
      kept_ = false;
    }
  }
  if (!former_.empty()) {
    ends_ = TRY(base::JobThread::create("guard-former", [this] { end_former(); }));
  }
  if (former_.empty()) {
    __atomic_store_n(&turn_->data()->holder, std::uint64_t{number_} << 32 | (word & 0xffffffff),
                     __ATOMIC_SEQ_CST);
    note_holder();
  }
  return {};
}

void GuardSuccession::note_holder() {
  taken_ = true;
  abi_guard_turn& turn = *turn_->data();
  __atomic_store_n(&turn.agent_start, turn.last_agent_start, __ATOMIC_SEQ_CST);
  __atomic_store_n(&turn.agent, turn.last_agent, __ATOMIC_SEQ_CST);
  set_expiry(expires_);
}

void GuardSuccession::set_expiry(std::optional<MonotonicTime> expires) {
  expires_ = expires;
  if (!taken_) return;
  const auto ns = expires ? static_cast<__u64>(std::max<std::int64_t>(to_ns(*expires), 0)) : 0;
  __atomic_store_n(&turn_->data()->expires_ns, ns, __ATOMIC_SEQ_CST);
}

std::vector<int> GuardSuccession::rings() const {
  std::vector<int> rings;
  for (const KeptObject& object : former_) {
    if (is_ring(object) && parse_guard_object(object.name)->layout == ABI_GUARD_REPORTS) {
      rings.push_back(object.fd.get());
    }
  }
  return rings;
}

bool GuardSuccession::has_unread_reports() const {
  return std::ranges::any_of(rings(), [](int ring) {
    const auto read = ring_position(ring, 0);
    const auto written = ring_position(ring, 1);
    return read && written && *read < *written;
  });
}

// The word is read first. A crossing after that changes it, and the exchange fails; a crossing
// before it has a kill that is not over, or its reports are in the ring.
bool GuardSuccession::take_over(MonotonicTime now, const std::function<void()>& hold_back) {
  if (taken_) return true;
  abi_guard_turn& turn = *turn_->data();
  __u64 word = __atomic_load_n(&turn.holder, __ATOMIC_SEQ_CST);
  const std::uint64_t busy = __atomic_load_n(&turn.busy[holder_of(word) % 2], __ATOMIC_SEQ_CST);
  if (busy != 0) {
    if (!busy_since_) busy_since_ = now;
    busy_seen_ = now;
    if (now - *busy_since_ < kBusyMax) return false;
  } else {
    busy_since_.reset();
  }
  if (has_unread_reports()) return false;
  if (hold_back) hold_back();
  const __u64 mine = __u64{number_} << 32 | (word & 0xffffffff);
  if (!__atomic_compare_exchange_n(&turn.holder, &word, mine, false, __ATOMIC_SEQ_CST,
                                   __ATOMIC_SEQ_CST)) {
    return false;
  }
  note_holder();
  static_cast<void>(ends_->start());  // it is idle
  return true;
}

// A program writes the time of its crossing before its kill is over. Before Linux 6.13 the kill may
// come long after that; then this agent has seen it under way.
std::optional<MonotonicTime> GuardSuccession::release_due(MonotonicTime now) const {
  MonotonicTime killed = lost_kill_.value_or(MonotonicTime());
  const auto ns = turn_ ? __atomic_load_n(&turn_->data()->crossed_ns, __ATOMIC_SEQ_CST) : 0;
  const MonotonicTime crossed = from_ns(static_cast<std::int64_t>(ns));
  if (crossed > reported_) killed = std::max({killed, crossed, busy_seen_});
  // What is shared may be damaged: no longer than from now.
  const MonotonicTime due = std::min(killed, now) + kRelease;
  return due > now ? std::optional(due) : std::nullopt;
}

// On the thread of its own: nothing else uses the store and the objects from the exchange on.
void GuardSuccession::end_former() {
  for (KeptObject& object : former_) {
    const auto dropped = store_->drop(object.name);
    if (!dropped && end_problem_.empty()) end_problem_ = dropped.error().text();
    object.fd.reset();
  }
}

Result<bool> GuardSuccession::withdraw() {
  if (withdraws_) {
    if (!withdraws_->finish()) return stored_.empty() && !withdraws_->running();
    stored_.clear();
    if (withdrawal_problem_.empty()) return true;
    return error(std::exchange(withdrawal_problem_, {}));
  }
  if (!kept_) return true;
  if (!TRY(former_ended())) return false;
  withdraws_ = TRY(base::JobThread::create("guard-withdraw", [this] { drop_stored(); }));
  kept_ = false;
  static_cast<void>(withdraws_->start());  // it is idle
  return false;
}

// On the thread of its own: the service manager may be slow.
void GuardSuccession::drop_stored() {
  for (const std::string& name : stored_) {
    const auto dropped = store_->drop(name);
    if (!dropped && withdrawal_problem_.empty()) withdrawal_problem_ = dropped.error().text();
  }
}

Result<bool> GuardSuccession::former_ended() {
  if (!taken_) return false;
  if (!ends_ || former_.empty()) return true;
  if (!ends_->finish()) return false;
  former_.clear();
  if (end_problem_.empty()) return true;
  return error(std::exchange(end_problem_, {}));
}

std::uint32_t GuardSuccession::crossings() const {
  return static_cast<std::uint32_t>(__atomic_load_n(&turn_->data()->holder, __ATOMIC_SEQ_CST));
}

Result<std::vector<std::string>> describe_kept_guards(GuardStore& store, MonotonicTime now) {
  std::set<std::uint32_t> numbers;
  std::optional<abi_guard_turn> turn;
  for (const KeptObject& object : TRY(store.kept())) {
    const auto name = parse_guard_object(object.name);
    if (name->number != 0) numbers.insert(name->number);
    if (name->number != 0 || !is_readable_turn(object.fd.get())) continue;
    const __u32 key = 0;
    abi_guard_turn value{};
    if (bpf_map_lookup_elem(object.fd.get(), &key, &value) != 0) {
      return errno_error("bpf_map_lookup_elem", object.name);
    }
    turn = value;
  }
  std::vector<std::string> lines;
  for (const std::uint32_t number : numbers) {
    std::string line = fmt::format("guard {}", number);
    if (!turn || holder_of(turn->holder) != number) {
      lines.push_back(line + " cannot fire; the next agent removes it");
      continue;
    }
    const auto left = from_ns(static_cast<std::int64_t>(turn->expires_ns)) - now;
    line += turn->expires_ns == 0 || left <= Duration::zero()
                ? std::string(" has no list in force")
                : fmt::format(" has a list for {} more", forestall::to_string(left));
    lines.push_back(line + fmt::format("; loaded by the agent with pid {}", turn->agent));
  }
  return lines;
}

}  // namespace forestall::kernel
