// SPDX-License-Identifier: Apache-2.0
#include "picture/moments.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "messages/convert.h"
#include "model/stage.h"
#include "text/utf8.h"

namespace forestall::picture {
namespace {

// Limit for all moments of a picture: some 500 bytes each.
constexpr std::size_t kCandidatesShown = 3000;
constexpr int kCandidatesLeast = 4;
// Sequences per run of the agent; ids stay exact in JavaScript.
constexpr std::uint64_t kSequencesMax = std::uint64_t{1} << 40;

internal::Moment::Kind kind_of(const Record& record, bool dry_run) {
  if (record.oom_kill) return internal::Moment::KERNEL_OOM;
  if (!record.decision.evictions.empty()) {
    const bool dry = record.outcome ? record.outcome->dry_run : dry_run;
    return dry ? internal::Moment::WOULD_KILL : internal::Moment::KILL;
  }
  if (record.decision.action == Action::reclaim) return internal::Moment::RECLAIM;
  const bool met = std::ranges::any_of(record.decision.evidence, &Evidence::met);
  return met ? internal::Moment::HELD : internal::Moment::CALM;
}

// Moments with the lowest value are dropped first.
int worth(internal::Moment::Kind kind) {
  switch (kind) {
    case internal::Moment::KILL:
    case internal::Moment::KERNEL_OOM: return 3;
    case internal::Moment::WOULD_KILL: return 2;
    case internal::Moment::RECLAIM: return 1;
    default: return 0;
  }
}

std::string victim_of(const Record& record) {
  if (record.oom_kill) {
    const auto& comm = record.oom_kill->event.comm;
    return {comm.data(), strnlen(comm.data(), comm.size())};
  }
  if (record.outcome) return record.outcome->victim.name;
  const auto victim = record.decision.victim();
  if (!victim || *victim >= record.decision.considered.size()) return {};
  return record.decision.considered[*victim].sample.workload.name;
}

// Keeps the first `most` candidates, and more up to the last victim.
void cut_candidates(internal::Moment& moment, int most) {
  v1::Decision& decision = *moment.mutable_record()->mutable_decision();
  for (const v1::Eviction& each : decision.evictions()) {
    most = std::max(most, static_cast<int>(each.candidate()) + 1);
  }
  const int surplus = decision.considered_size() - most;
  if (surplus <= 0) return;
  decision.mutable_considered()->DeleteSubrange(most, surplus);
  moment.set_considered_left_out(moment.considered_left_out() +
                                 static_cast<std::uint64_t>(surplus));
}

void count_kernel_kill(const internal::Moment& moment, internal::PictureSummary& summary) {
  const auto inaction = moment.record().oom_kill().inaction();
  const bool elsewhere = inaction == v1::OomKill::NOT_WATCHED || inaction == v1::OomKill::WARN_ONLY;
  summary.set_kernel_ooms(summary.kernel_ooms() + 1);
  summary.set_kernel_ooms_elsewhere(summary.kernel_ooms_elsewhere() + (elsewhere ? 1 : 0));
}

// Adds a moment to the summary.
void count(const internal::Moment& moment, internal::PictureSummary& summary) {
  switch (moment.kind()) {
    case internal::Moment::KILL: summary.set_kills(summary.kills() + 1); break;
    case internal::Moment::WOULD_KILL: summary.set_would_kills(summary.would_kills() + 1); break;
    case internal::Moment::KERNEL_OOM: count_kernel_kill(moment, summary); break;
    default: break;
  }
  if (moment.kind() == internal::Moment::KILL && moment.record().has_outcome()) {
    summary.set_freed_bytes(summary.freed_bytes() + moment.record().outcome().freed_bytes());
  }
}

void put_stages(const Record& record, internal::Moment& out) {
  const StageLengths lengths = stage_lengths(record);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (!lengths[i]) continue;
    v1::StageLength& stage = *out.add_stages();
    stage.set_stage(std::string(to_string(static_cast<Stage>(i))));
    stage.set_length_ns(lengths[i]->count());
  }
}

}  // namespace

void Moments::record(std::uint64_t evaluation, std::uint64_t run, std::int64_t at_us, bool dry_run,
                     const Record& record) {
  std::uint64_t left_out = 0;
  const Record reported = evaluations_.completed(evaluation, record, left_out);
  const std::uint64_t id = run * kSequencesMax + reported.sequence;
  if (!reported_.contains(id)) make_room();
  Reported& entry = reported_[id];
  const bool again = entry.moment.id() == id && entry.revision != 0;
  entry.revision = ++revision_;
  internal::Moment moment;
  moment.set_id(id);
  moment.set_kind(kind_of(reported, dry_run));
  moment.set_at_us(again ? entry.moment.at_us() : at_us);
  moment.set_victim(text::to_utf8(victim_of(reported)));
  put_stages(reported, moment);
  if (reported.outcome && reported.outcome->signalled && !reported.outcome->dry_run) {
    const auto reaction = stage_lengths(reported)[static_cast<std::size_t>(Stage::reaction)];
    if (reaction) entry.to_signal_ns = reaction->count();
  }
  *moment.mutable_record() = messages::to_proto(reported);
  moment.set_considered_left_out(left_out);
  entry.moment = std::move(moment);
}

void Moments::make_room() {
  if (reported_.size() < limits_.moments) return;
  const auto least =
      std::min_element(reported_.begin(), reported_.end(), [](const auto& a, const auto& b) {
        return worth(a.second.moment.kind()) < worth(b.second.moment.kind());
      });
  // A kill without an outcome is counted when its final record arrives.
  const internal::Moment& moment = least->second.moment;
  if (moment.record().has_outcome() || moment.record().has_oom_kill()) count(moment, gone_);
  reported_.erase(least);  // the oldest of its kind: they are in order of their ids
  ++left_out_;
}

std::vector<std::int64_t> Moments::kill_times() const {
  std::vector<std::int64_t> times;
  for (const auto& [id, each] : reported_) {
    if (worth(each.moment.kind()) > 1) times.push_back(each.moment.at_us());
  }
  std::ranges::sort(times);
  return times;
}

void Moments::put(internal::Picture& out, std::uint64_t since) const {
  internal::PictureSummary& summary = *out.mutable_summary();
  summary = gone_;
  std::vector<std::int64_t> to_signal;
  const int candidates =
      std::max(kCandidatesLeast,
               static_cast<int>(kCandidatesShown / std::max<std::size_t>(reported_.size(), 1)));
  for (const auto& [id, each] : reported_) {
    const internal::Moment& moment = each.moment;
    if (each.revision > since) {
      *out.add_moments() = moment;
      cut_candidates(*out.mutable_moments()->rbegin(), candidates);
    }
    count(moment, summary);
    if (each.to_signal_ns) to_signal.push_back(*each.to_signal_ns);
  }
  std::ranges::sort(*out.mutable_moments(), {}, &internal::Moment::at_us);
  out.set_moments_left_out(left_out_);
  if (to_signal.empty()) return;
  std::ranges::sort(to_signal);
  const std::size_t half = to_signal.size() / 2;
  const std::int64_t low = to_signal[(to_signal.size() - 1) / 2];
  summary.set_median_to_signal_ns(low + (to_signal[half] - low) / 2);
  summary.set_longest_to_signal_ns(to_signal.back());
}

}  // namespace forestall::picture
