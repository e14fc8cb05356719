// SPDX-License-Identifier: Apache-2.0
// Many hostile rounds from one seed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "hostile/arena.h"

namespace forestall::test {

struct CampaignSpan {
  std::uint64_t seed = 1;
  std::uint64_t first = 0;
  std::uint64_t rounds = 1;
  std::string logs;  // directory for the agent's log of each round with a problem; empty: none
};

struct CampaignFigures {
  std::uint64_t rounds = 0, agent_kills = 0, kernel_kills = 0, not_short = 0, explained = 0;
  std::uint64_t empty_kills = 0;
  std::map<std::string, std::uint64_t> offences, tricks;       // rounds with each
  std::map<std::string, std::vector<std::uint64_t>> problems;  // kind to rounds

  void add(std::uint64_t round, const RoundPlan& plan, const RoundResult& result);
  [[nodiscard]] std::string text() const;
};

// Printable form of a name that a tenant may have chosen.
[[nodiscard]] std::string printable(const std::string& text);

// Plays the rounds; `on_line` receives a line for each problem, with what repeats it.
[[nodiscard]] CampaignFigures run_campaign(const CampaignSpan& span,
                                           const std::function<void(const std::string&)>& on_line);

}  // namespace forestall::test
