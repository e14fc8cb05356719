// SPDX-License-Identifier: Apache-2.0
#include "replay/comparison_text.h"

#include <fmt/format.h>

#include <map>
#include <tuple>

#include "base/printable.h"
#include "messages/convert.h"
#include "model/duration.h"
#include "tables/process_text.h"

namespace forestall::replay {
namespace {

using Kind = EpisodeDifference::Kind;

std::string since(MonotonicTime at, MonotonicTime first) {
  return offset(at - first);
}

// "default/web", "default/web and 2 more".
std::string victims_of(const Episode& episode) {
  const std::string first = episode.victims.front().name;
  std::size_t others = 0;
  for (const Departure& each : episode.victims) others += each.name != first ? 1 : 0;
  const std::string shown = printable(first);
  return others == 0 ? shown : fmt::format("{} and {} more", shown, others);
}

// Why no workload was evicted, and how long the threshold was met.
std::string why_none(const Episode& episode) {
  const std::string length = brief(episode.end() - episode.began);
  if (episode.in_grace) return fmt::format("met for {}, within its grace period", length);
  return fmt::format("met for {}, {}", length, to_string(episode.reason));
}

// `other`: the same crossing on the other side.
std::string not_crossed(const Episode& other, const std::optional<Sides::Time>& time) {
  const bool covered = !time || (other.began <= time->second && other.end() >= time->first);
  return covered ? "not crossed" : "no evaluation at that time";
}

std::string reported(const Episode& episode, MonotonicTime first) {
  if (episode.kills == 0) return "no eviction: " + why_none(episode);
  const Departure& victim = episode.victims.front();
  std::string text = fmt::format("{} at {}", victims_of(episode), since(victim.at, first));
  if (victim.age) text += fmt::format(" (with usage read {} earlier)", brief(*victim.age));
  return text;
}

std::string how(const EpisodeDifference& difference) {
  switch (difference.kind) {
    case Kind::same: return "the same";
    case Kind::earlier: return brief(-difference.shift) + " earlier";
    case Kind::later: return brief(difference.shift) + " later";
    case Kind::other_victim:
      return fmt::format("another victim, {} {}",
                         brief(std::max(difference.shift, -difference.shift)),
                         difference.shift < Duration::zero() ? "earlier" : "later");
    case Kind::only_before:
    case Kind::spared: return "no longer evicts";
    case Kind::only_after:
    case Kind::killed: return "evicts now";
    case Kind::neither: return "no eviction";
  }
  return "";
}

internal::ReplayEpisode to_proto(const Episode& episode) {
  internal::ReplayEpisode out;
  out.set_signal(episode.signal);
  out.set_subject(episode.subject);
  out.set_limit(episode.limit);
  out.set_began_ns(to_ns(episode.began));
  if (episode.ended) out.set_ended_ns(to_ns(*episode.ended));
  out.set_kills(episode.kills);
  for (const Departure& victim : episode.victims) {
    internal::ReplayVictim& added = *out.add_victims();
    added.set_at_ns(to_ns(victim.at));
    added.set_name(victim.name);
    added.set_path(victim.path);
    if (victim.age) added.set_age_ns(victim.age->count());
  }
  out.set_in_grace(episode.in_grace);
  out.set_reason(messages::to_proto(episode.reason));
  return out;
}

// The recorded plan deferred other rulesets, or they did not exist.
std::string missing_readings_text(const RuleCoverage& coverage) {
  std::string out;
  for (const auto& [name, missing] : coverage.missing()) {
    out += fmt::format(
        "ruleset {}: not decided for {}: the recording does not have what it reads ({} readings)\n",
        printable(name), brief(missing.time), missing.readings);
  }
  return out;
}

}  // namespace

std::string episodes_text(const std::vector<EpisodeDifference>& differences, MonotonicTime first,
                          const Sides& sides) {
  std::string out;
  std::map<Kind, std::size_t> counts;
  for (const EpisodeDifference& each : differences) {
    ++counts[each.kind];
    if (each.kind == Kind::same) continue;
    const Episode& named = each.before != nullptr ? *each.before : *each.after;
    const MonotonicTime began = each.before != nullptr && each.after != nullptr
                                    ? std::min(each.before->began, each.after->began)
                                    : named.began;
    out += fmt::format("{:>14}  {} of {}: {}\n", since(began, first), named.signal, named.subject,
                       how(each));
    for (const auto& [side, episode, time] :
         {std::tuple{&sides.before, each.before, &sides.before_time},
          std::tuple{&sides.after, each.after, &sides.after_time}}) {
      const std::string limit =
          episode != nullptr && !episode->limit.empty() ? " (< " + episode->limit + ")" : "";
      out +=
          fmt::format("{:>16}{}{}: {}\n", "", *side, limit,
                      episode != nullptr ? reported(*episode, first) : not_crossed(named, *time));
    }
  }
  out += fmt::format("crossings: {}", differences.size());
  for (const auto& [kind, count] : counts) out += fmt::format(", {} {}", count, to_string(kind));
  return out + "\n";
}

std::string comparison_text(const RecordingReplay& replay) {
  const RecordingInput::Counts& read = replay.input().counts();
  const std::uint64_t all = replay.same() + replay.different();
  std::string out = fmt::format("recorded decisions: {}", all);
  if (const auto prepared = replay.fold().counts().prepared; prepared > 0) {
    out += fmt::format(" ({} on a pre-ranked list)", prepared);
  }
  if (replay.different() == 0) {
    out += replay.same() > 0 ? ", all the same here, byte for byte\n" : "\n";
  } else if (replay.rules().as_recorded()) {
    out += fmt::format(", {} different here\n", replay.different());
  } else {
    // Each decision contains the threshold's limit, so most decisions differ in their bytes.
    out += fmt::format(", {} act differently here\n", replay.otherwise());
  }
  if (replay.states_different() > 0) {
    out += fmt::format("the policy's state differs at {} places\n", replay.states_different());
  }
  if (read.lost > 0) out += fmt::format("entries lost while recording: {}\n", read.lost);
  if (read.passed_over > 0) {
    out += fmt::format("entries skipped because an entry they refer to is missing: {}\n",
                       read.passed_over);
  }
  out += missing_readings_text(replay.coverage());
  const auto& first_time = replay.fold().counts().first;
  if (const auto& first = replay.first_difference()) {
    out += fmt::format("the first different decision is evaluation {} at {}:\n{}",
                       first->evaluation, since(first->at, first_time.value_or(first->at)),
                       difference_text(first->recorded, first->replayed, first->at, {}));
  } else if (!replay.rules().as_recorded() && first_time) {
    out += "\ncompared with the recording:\n" +
           episodes_text(compare(replay.recorded(), replay.replayed()), *first_time, {});
  }
  return out;
}

void add_episodes(const std::vector<EpisodeDifference>& differences,
                  internal::ReplayComparison& out) {
  for (const EpisodeDifference& each : differences) {
    internal::EpisodeDifference& added = *out.add_episodes();
    added.set_kind(static_cast<internal::EpisodeDifference::Kind>(static_cast<int>(each.kind) + 1));
    if (each.before != nullptr) *added.mutable_before() = to_proto(*each.before);
    if (each.after != nullptr) *added.mutable_after() = to_proto(*each.after);
    const bool both = each.before != nullptr && each.after != nullptr && each.before->kills > 0 &&
                      each.after->kills > 0;
    if (both) added.set_shift_ns(each.shift.count());
  }
}

internal::ReplayComparison comparison_of(const RecordingReplay& replay) {
  internal::ReplayComparison out;
  out.set_same(replay.same());
  out.set_different(replay.different());
  out.set_states_different(replay.states_different());
  if (!replay.rules().as_recorded()) out.set_act_otherwise(replay.otherwise());
  if (!replay.rules().as_recorded()) {
    add_episodes(compare(replay.recorded(), replay.replayed()), out);
  }
  out.set_lost(replay.input().counts().lost);
  out.set_passed_over(replay.input().counts().passed_over);
  for (const std::string& remark : replay.input().remarks()) out.add_remarks(remark);
  for (const auto& [name, missing] : replay.coverage().missing()) {
    internal::RulesetWithoutReadings& added = *out.add_rulesets_without_readings();
    added.set_ruleset(name);
    added.set_readings(missing.readings);
    added.set_missing_ns(missing.time.count());
  }
  return out;
}

}  // namespace forestall::replay
