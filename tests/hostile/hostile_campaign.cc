// SPDX-License-Identifier: Apache-2.0
// The long campaign: hostile_campaign [--rounds N] [--seed S] [--first N] [--logs DIR]. Exit
// status: 0 no problem, 1 problems, 2 usage or a machine that cannot play.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <string>

#include "hostile/campaign.h"

int main(int count, char** arguments) {
  using namespace forestall::test;
  CampaignSpan span{static_cast<std::uint64_t>(time(nullptr)), 0, 10'000, ""};
  for (int i = 1; i < count; i += 2) {
    const std::string name = arguments[i];
    if (name == "--logs" && i + 1 < count) {
      span.logs = arguments[i + 1];
      continue;
    }
    std::uint64_t* const value = name == "--rounds"  ? &span.rounds
                                 : name == "--seed"  ? &span.seed
                                 : name == "--first" ? &span.first
                                                     : nullptr;
    if (value == nullptr || i + 1 == count) {
      fmt::print(stderr, "usage: {} [--rounds N] [--seed S] [--first N] [--logs DIR]\n",
                 arguments[0]);
      return 2;
    }
    *value = std::strtoull(arguments[i + 1], nullptr, 10);
  }
  fmt::print("hostile campaign: --seed {} --first {} --rounds {}\n", span.seed, span.first,
             span.rounds);
  const auto print = [](const std::string& line) {
    fmt::print("{}\n", line);
    std::fflush(stdout);
  };
  try {
    const CampaignFigures figures = run_campaign(span, print);
    print(figures.text());
    return figures.problems.empty() ? 0 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "hostile_campaign: {}\n", error.what());
    return 2;
  }
}
