// SPDX-License-Identifier: Apache-2.0
#include "agent/victim_cache.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "agent/sampling_turn.h"
#include "base/parse.h"
#include "policy/damage_limit.h"
#include "policy/lines.h"
#include "policy/rank.h"
#include "policy/shortlist.h"
#include "policy/warning.h"

namespace forestall::agent {
namespace {

// Between two lists while usage moves without a halving of the headroom.
constexpr Duration kShortestInterval = std::chrono::seconds(1);
constexpr Duration kLongestInterval = std::chrono::seconds(8);
// A list is followed by so many times its length without one: at most 2 % of a CPU on a node of any
// size that stays in the zone for days. On a very large node the list may thus become too old to be
// used, and a crossing reads all workloads.
constexpr int kRest = 50;
// Usage that moved by less has not moved.
constexpr Bytes kGrain = mib(1);

Bytes distance(Bytes a, Bytes b) {
  return a < b ? b - a : a - b;
}

VictimCache::ZoneSubject to_subject(const Line& line) {
  return {line.cgroup, line.path, line.headroom, line.margin, {}, {}, {}, {}};
}

// Whether it is among those that may be selected. One more was ranked with them: a workload that
// ranks before that one ranks before all behind it.
bool stands_for(const VictimCache::ZoneSubject& subject, CgroupId workload) {
  const std::size_t count = std::min(subject.first.size(), VictimCache::kFirst);
  const auto first = std::span(subject.first).first(count);
  return std::ranges::any_of(first, [&](const Candidate& candidate) {
    return candidate.sample.workload.cgroup == workload;
  });
}

CgroupId id_of(const Candidate& candidate) {
  return candidate.sample.workload.cgroup;
}

// How much more a workload uses than when it was listed. One that is gone, or cannot be read, has
// freed all of its memory.
Bytes growth_since(const Candidate& then, std::span<const Candidate> considered) {
  const auto now = std::ranges::find(considered, id_of(then), id_of);
  const auto used = now == considered.end() ? std::nullopt : now->sample.working_set();
  return used.value_or(Bytes{0}) - then.sample.working_set().value_or(Bytes{0});
}

// Why this decision holds a kill for the subject back; nullopt: it does not, or was for another.
std::optional<Reason> decided_hold(const Decision& decision, CgroupId subject) {
  if (!policy::is_held_back(decision.reason)) return std::nullopt;
  const bool same = decision.evidence[*decision.driving].cgroup == subject;
  return same ? std::optional(decision.reason) : std::nullopt;
}

// Its growth is part of the other one's.
bool lies_in_another(const Candidate& candidate, std::span<const Candidate> others) {
  return std::ranges::any_of(others, [&](const Candidate& other) {
    return id_of(other) != id_of(candidate) &&
           path_is_within(candidate.sample.workload.path, other.sample.workload.path);
  });
}

}  // namespace

// One cgroup may have several thresholds: the nearest decides when, all of them are watched.
bool VictimCache::update_zone(std::span<const Line> lines) {
  std::vector<ZoneSubject> now;
  for (const Line& line : lines) {
    if (line.margin <= Bytes{0}) continue;
    const auto known = std::ranges::find(subjects_, line.cgroup, &ZoneSubject::cgroup);
    const bool stays =
        known != subjects_.end() && !policy::out_of_warning_zone(line.headroom, line.margin);
    if (!stays && !policy::in_warning_zone(line.headroom, line.margin)) continue;
    const auto same = std::ranges::find(now, line.cgroup, &ZoneSubject::cgroup);
    if (same == now.end()) {
      now.push_back(to_subject(line));
    } else if (line.headroom < same->headroom) {
      *same = to_subject(line);
    }
  }
  std::ranges::sort(now, {}, &ZoneSubject::headroom);
  if (now.size() > kSubjectsMax) now.resize(kSubjectsMax);
  bool entered = false;
  for (ZoneSubject& subject : now) {
    std::ranges::copy_if(lines, std::back_inserter(subject.lines), [&](const Line& line) {
      return line.cgroup == subject.cgroup && line.margin > Bytes{0};
    });
    const auto known = std::ranges::find(subjects_, subject.cgroup, &ZoneSubject::cgroup);
    entered = entered || known == subjects_.end();
    if (known == subjects_.end()) continue;
    subject.first = std::move(known->first);
    subject.leads = std::move(known->leads);
    subject.as_listed = std::move(known->as_listed);
  }
  subjects_ = std::move(now);
  watched_.clear();
  for (const ZoneSubject& subject : subjects_) watched_.push_back(subject.cgroup);
  return entered;
}

Bytes VictimCache::nearest() const {
  return subjects_.front().headroom;
}

bool VictimCache::is_outdated(MonotonicTime now) const {
  // Each halving, however fast they follow each other.
  if (nearest() > Bytes{0} && nearest().count <= began_headroom_.count / 2) return true;
  if (now < rested_at_) return false;
  if (changes_ != observer_.workload_changes()) return true;
  if (now - began_at_ < kShortestInterval) return false;
  return distance(nearest(), began_headroom_) >= kGrain || now - began_at_ > kGoodFor / 2;
}

void VictimCache::note(std::span<const Line> lines, MonotonicTime now) {
  const bool entered = update_zone(lines);
  if (subjects_.empty()) return forget();
  const bool waits = kill_in_flight();  // its end causes the next evaluation
  wanted_ = wanted_ || entered || waits;
  const bool begin = !sampling_ && !waits && (wanted_ || is_outdated(now));
  const bool moves = begin || sampling_;
  evaluation_interval_ =
      moves ? kShortestInterval
            : std::clamp(evaluation_interval_ * 2, kShortestInterval, kLongestInterval);
  evaluation_due_ = now + evaluation_interval_;
  // The list does not cover the present workloads: the next one is made as soon as it may be.
  if (!begin && !waits && changes_ != observer_.workload_changes()) {
    evaluation_due_ = std::min(evaluation_due_, std::max(rested_at_, now));
  }
  if (begin) begin_sampling(now);
}

void VictimCache::forget() {
  release_list();
  growth_.receded();
}

void VictimCache::reconfigured(bool same_rules) {
  release_list();
  if (!same_rules) growth_.receded();
}

void VictimCache::release_list() {
  subjects_.clear();
  watched_.clear();
  sampling_.reset();
  samples_.reset();
  listed_.clear();
  listed_at_.reset();
  ladder_.release_pins();
  evaluation_interval_ = Duration::zero();
  wanted_ = false;
}

bool VictimCache::kill_in_flight() const {
  // The kills of a dry run stay in flight, and free nothing.
  if (ladder_.dry_run()) return false;
  const auto kills = ladder_.progress();
  return std::ranges::find(kills, KillState::in_flight, &KillProgress::state) != kills.end();
}

void VictimCache::stop_work() {
  sampling_.reset();
  wanted_ = true;
}

void VictimCache::begin_sampling(MonotonicTime now) {
  wanted_ = false;
  began_at_ = now;
  began_headroom_ = nearest();
  const bool one_cgroup = subjects_.size() == 1 && subjects_.front().cgroup != CgroupId{};
  sampling_ = Sampling{
      {}, one_cgroup ? subjects_.front().path : std::string(), {}, 0, observer_.workload_changes()};
  for (const ZoneSubject& subject : subjects_)
    std::ranges::copy(subject.lines, std::back_inserter(sampling_->lines));
}

bool VictimCache::work(const Config& config, const std::vector<KillProgress>& kills,
                       MonotonicTime now) {
  if (kill_in_flight()) {
    stop_work();
    return false;
  }
  const exports::LoopWorkScope samples(work_, exports::LoopWork::sample);
  if (sampling_->changes != observer_.workload_changes()) {
    begin_sampling(now);
    return false;
  }
  if (sample_for_a_turn(clock_, observer_, sampling_->observation, sampling_->subject,
                        sampling_->next)) {
    return false;
  }
  sampling_->changes = observer_.workload_changes();  // its last turn dropped what was removed
  sampling_->observation.kills = kills;
  const exports::LoopWorkScope ranks(work_, exports::LoopWork::rank);
  return !make_list(config, now);
}

// Returns whether its first victims are being pinned.
bool VictimCache::make_list(const Config& config, MonotonicTime now) {
  Sampling sampling = *std::exchange(sampling_, std::nullopt);
  std::vector<WorkloadSample>& samples = *sampling.observation.workloads;
  report_growth(config, sampling, now);
  ranking_ = config.ranking;
  listed_.clear();
  for (ZoneSubject& subject : subjects_) {
    auto list =
        policy::shortlist(config, sampling.observation, {subject.cgroup, subject.path}, kFirst + 1);
    subject.first = std::move(list.first);
    subject.leads = std::move(list.leads);
    subject.as_listed.clear();
    std::ranges::copy_if(sampling.lines, std::back_inserter(subject.as_listed),
                         [&](const Line& line) { return line.cgroup == subject.cgroup; });
    for (const Candidate& candidate : subject.first) {
      const CgroupId id = candidate.sample.workload.cgroup;
      const auto same = [&](const WorkloadSample& each) { return each.workload.cgroup == id; };
      if (std::ranges::none_of(listed_, same)) listed_.push_back(candidate.sample);
    }
  }
  listed_at_ = now;
  rested_at_ = now + (now - began_at_) * kRest;
  samples_ = std::make_shared<const std::vector<WorkloadSample>>(std::move(samples));
  scope_ = std::move(sampling.subject);
  sampled_at_ = began_at_;
  changes_ = sampling.changes;
  ++generation_;
  return pin_first();
}

// The first list of a stay ranks by growth since the last baseline from before the zone.
void VictimCache::report_growth(const Config& config, Sampling& sampling, MonotonicTime now) {
  growth_.apply(*sampling.observation.workloads);
  if (nearest() <= Bytes{0}) return;  // the threshold is met already
  const Bytes far = growth_.known() ? Bytes{subjects_.front().margin.count / 2} : Bytes{0};
  const auto fresh =
      observer_.sample_subjects(Wake{WakeSource::recheck, now, {}, {}}, now, watched_);
  for (const Line& line : policy::lines(config, fresh)) {
    if (line.cgroup == subjects_.front().cgroup && line.margin > Bytes{0} && line.headroom <= far) {
      return;
    }
  }
  growth_.warned(*sampling.observation.workloads, began_at_, sampling.subject);
}

bool VictimCache::pin_first() {
  const exports::LoopWorkScope pins(work_, exports::LoopWork::pin);
  std::vector<Workload> first;
  for (const WorkloadSample& each : listed_) {
    if (is_first(each.workload.cgroup)) first.push_back(each.workload);
  }
  return ladder_.pin(std::move(first));
}

bool VictimCache::take_pins() {
  const exports::LoopWorkScope pins(work_, exports::LoopWork::pin);
  return ladder_.collect_pins() && !kill_in_flight();
}

bool VictimCache::is_first(CgroupId workload) const {
  return std::ranges::any_of(
      subjects_, [&](const ZoneSubject& subject) { return stands_for(subject, workload); });
}

std::optional<MonotonicTime> VictimCache::next_due() const {
  if (working()) return began_at_;
  if (subjects_.empty()) return std::nullopt;
  return evaluation_due_;
}

bool VictimCache::ready(MonotonicTime now) const {
  return listed_at_ && now - *listed_at_ < kGoodFor && changes_ == observer_.workload_changes();
}

void VictimCache::offer(Observation& observation) const {
  observation.workloads = listed_;
}

bool VictimCache::covers(const Decision& decision) const {
  if (!decision.driving || decision.evictions.size() != 1) return false;
  if (!decision.evictions.front().at_once) return false;
  // A workload that grew since need not be among the first of the list.
  if (ranking_ == Ranking::kubelet_growth && listed_.size() < sample_count()) return false;
  const CgroupId about = decision.evidence[*decision.driving].cgroup;
  const auto subject = std::ranges::find(subjects_, about, &ZoneSubject::cgroup);
  if (subject == subjects_.end()) return false;
  const CgroupId victim = decision.considered[*decision.victim()].sample.workload.cgroup;
  return stands_for(*subject, victim) && stays_first(*subject, decision);
}

// Growth of the subject that no listed workload explains belongs to unlisted ones: at worst all of
// it to a single one.
bool VictimCache::stays_first(const ZoneSubject& subject, const Decision& decision) const {
  if (listed_.size() >= sample_count()) return true;
  const Evidence& evidence = decision.evidence[*decision.driving];
  const auto line = std::ranges::find(subject.as_listed, evidence.threshold.signal, &Line::signal);
  if (line == subject.as_listed.end() || line->capacity.count != evidence.capacity) return false;
  const Bytes used_then = line->floor_line - line->headroom;
  Bytes unexplained = Bytes{evidence.capacity - evidence.available} - used_then;
  for (const Candidate& then : subject.first) {
    if (lies_in_another(then, subject.first)) continue;
    unexplained = unexplained - growth_since(then, decision.considered);
  }
  const CgroupId victim = decision.considered[*decision.victim()].sample.workload.cgroup;
  const auto listed = std::ranges::find(subject.first, victim, id_of);
  const Bytes shrunk = std::min(growth_since(*listed, decision.considered), Bytes{0});
  return unexplained <=
         subject.leads[static_cast<std::size_t>(listed - subject.first.begin())] + shrunk;
}

NextVictim VictimCache::next_victim(const ZoneSubject& subject,
                                    const std::vector<KillProgress>& kills) const {
  NextVictim next;
  next.subject = subject.cgroup == CgroupId{} ? "node" : subject.path;
  next.signal = std::ranges::min(subject.lines, {}, &Line::headroom).signal;
  if (!listed_at_ || subject.as_listed.empty()) return next;  // it entered the zone since
  next.ranked_at = listed_at_;
  const auto killed_since = [&](const Candidate& candidate) {
    return std::ranges::any_of(kills, [&](const KillProgress& kill) {
      const bool ended_before = kill.state == KillState::released && kill.started < *listed_at_;
      return kill.cgroup == id_of(candidate) && !ended_before;
    });
  };
  const auto first = std::ranges::find_if_not(subject.first, killed_since);
  if (first == subject.first.end()) return next;
  next.candidate = *first;
  const auto second = std::find_if_not(first + 1, subject.first.end(), killed_since);
  if (second != subject.first.end()) {
    next.before_next_by =
        policy::deciding_rule(first->key, second->key, Resource::memory, ranking_);
  }
  return next;
}

std::vector<NextVictim> VictimCache::next_victims(const Config& config, const Decision* last,
                                                  const std::vector<KillProgress>& kills,
                                                  MonotonicTime now) const {
  std::vector<NextVictim> all;
  for (const ZoneSubject& subject : subjects_) {
    NextVictim next = next_victim(subject, kills);
    const Line& line = std::ranges::min(subject.lines, {}, &Line::headroom);
    const auto decided = last == nullptr ? std::nullopt : decided_hold(*last, subject.cgroup);
    next.held_back =
        decided ? decided : policy::hold_at_crossing(config, line, kills, now, subject.first);
    all.push_back(std::move(next));
  }
  return all;
}

std::vector<Watchdog::Order> VictimCache::orders(const Config& config,
                                                 const std::vector<KillProgress>& kills,
                                                 MonotonicTime now) const {
  std::vector<Watchdog::Order> orders;
  if (changes_ != observer_.workload_changes()) return orders;
  for (const ZoneSubject& subject : subjects_) {
    if (subject.first.empty()) continue;
    const Candidate& first = subject.first.front();
    // The policy spares it until the kernel would act (policy/damage_limit.h).
    if (policy::is_within_request(first.key)) continue;
    const auto pinned = ladder_.pinned_of(first.sample.workload.cgroup);
    if (pinned == nullptr) continue;
    for (const Line& line : subject.lines) {
      if (policy::hold_at_crossing(config, line, kills, now, subject.first)) continue;
      orders.push_back({subject.cgroup, subject.path, line.signal, line.floor_line, line.capacity,
                        first, pinned});
    }
  }
  return orders;
}

VictimCache::SharedSamples VictimCache::samples_for(std::span<const std::string> subjects,
                                                    MonotonicTime now) const {
  if (!ready(now) || changes_ != observer_.workload_changes()) return nullptr;
  const bool covers = scope_.empty() || std::ranges::all_of(subjects, [&](const std::string& path) {
                        return path_is_within(path, scope_);
                      });
  return covers ? samples_ : nullptr;
}

VictimCache::SharedSamples VictimCache::samples_of(std::string_view subject) const {
  const bool usable = listed_at_ && changes_ == observer_.workload_changes() && scope_ == subject;
  return usable && sample_count() > 0 ? samples_ : nullptr;
}

MonotonicTime VictimCache::valid_until() const {
  return listed_at_.value_or(MonotonicTime{}) + kGoodFor;
}

Prepared VictimCache::prepared(MonotonicTime now) const {
  return {now - *listed_at_, sample_count()};
}

}  // namespace forestall::agent
