// SPDX-License-Identifier: Apache-2.0
#include "hostile/campaign.h"

#include <fmt/format.h>

#include <fstream>
#include <memory>
#include <stdexcept>

namespace forestall::test {
namespace {

// An agent starts once for this many rounds.
constexpr std::uint64_t kRoundsPerAgent = 50;

AgentMode mode_of(const CampaignSpan& span, std::uint64_t round) {
  return static_cast<AgentMode>((span.seed + round / kRoundsPerAgent) % 3);
}

void keep_log(const CampaignSpan& span, std::uint64_t round, Arena& arena) {
  if (span.logs.empty()) return;
  const std::string path = fmt::format("{}/agent-{}-{}.log", span.logs, span.seed, round);
  if (!(std::ofstream(path) << arena.agent_log())) throw std::runtime_error("write " + path);
}

}  // namespace

std::string printable(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte >= 0x20 && byte < 0x7f ? std::string(1, c) : fmt::format("\\x{:02x}", byte);
  }
  return out;
}

void CampaignFigures::add(std::uint64_t round, const RoundPlan& plan, const RoundResult& result) {
  ++rounds;
  agent_kills += result.agent_killed ? 1 : 0;
  kernel_kills += result.kernel_killed ? 1 : 0;
  not_short += result.not_short ? 1 : 0;
  explained += result.explained ? 1 : 0;
  empty_kills += static_cast<std::uint64_t>(result.empty_kills);
  ++offences[name_of(plan.offence)];
  for (const Trick each : plan.tricks) ++tricks[name_of(each)];
  for (const Problem& each : result.problems) problems[each.kind].push_back(round);
}

std::string CampaignFigures::text() const {
  std::string text = fmt::format(
      "rounds {}: agent's kills {}, kernel first {}, no kill due {}, reason in a record {}, "
      "records of kills without a process {}\noffences:",
      rounds, agent_kills, kernel_kills, not_short, explained, empty_kills);
  for (const auto& [name, count] : offences) text += fmt::format(" {} {}", name, count);
  text += "\ntricks:";
  for (const auto& [name, count] : tricks) text += fmt::format(" {} {}", name, count);
  for (const auto& [kind, where] : problems) {
    text += fmt::format("\nPROBLEM {}: {} times, first in round {}", kind, where.size(), where[0]);
  }
  return text + (problems.empty() ? "\nno problem\n" : "\n");
}

CampaignFigures run_campaign(const CampaignSpan& span,
                             const std::function<void(const std::string&)>& on_line) {
  CampaignFigures figures;
  std::unique_ptr<Arena> arena;
  for (std::uint64_t round = span.first; round < span.first + span.rounds; ++round) {
    if (arena == nullptr || round % kRoundsPerAgent == 0) {
      arena.reset();
      arena = std::make_unique<Arena>(mode_of(span, round));
    }
    const RoundPlan plan = plan_round(span.seed, round);
    const RoundResult result = arena->play(plan);
    figures.add(round, plan, result);
    for (const Problem& each : result.problems) {
      on_line(fmt::format("--seed {} --first {} --rounds 1: {}: {}: {}", span.seed, round,
                          plan.text(), each.kind, printable(each.detail)));
    }
    if (!result.problems.empty()) {
      keep_log(span, round, *arena);
      arena.reset();
    }
    if ((round + 1) % 500 == 0) on_line(fmt::format("{} rounds played", figures.rounds));
  }
  return figures;
}

}  // namespace forestall::test
