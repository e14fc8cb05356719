// SPDX-License-Identifier: Apache-2.0
// `--help` of the program and of every subcommand: width, groups, and where kubelet's flags are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "cli/help_text.h"
#include "support/agent_run.h"

namespace forestall::test {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

const std::vector<std::string> kWithKubeletFlags{"agent", "signals", "rank",  "check-config",
                                                 "plan",  "replay",  "record"};

std::string output_of(const std::vector<std::string>& arguments) {
  const Ran ran = run_forestall(arguments);
  EXPECT_EQ(ran.exit_code, 0) << testing::PrintToString(arguments) << "\n" << ran.errors;
  EXPECT_EQ(ran.errors, "") << testing::PrintToString(arguments);
  EXPECT_THAT(ran.output, HasSubstr("Usage: ")) << testing::PrintToString(arguments);
  return ran.output;
}

std::string help_of(const std::string& subcommand) {
  return output_of({subcommand, "--help"});
}

// The titles and first words of a help text, such as "Guard: agent demo".
std::vector<std::string> groups_of(const std::string& help) {
  std::vector<std::string> groups;
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with(':') && !line.starts_with(' ')) {
      groups.push_back(line);
    } else if (!groups.empty() && line.starts_with("  ") && !line.starts_with("   ")) {
      groups.back() += " " + line.substr(2, line.find_first_of(" ,", 2) - 2);
    }
  }
  return groups;
}

// Those that `forestall --help` lists.
std::vector<std::string> all_subcommands() {
  std::vector<std::string> all;
  for (const std::string& group : groups_of(output_of({"--help"}))) {
    if (group.starts_with("Options:")) continue;
    std::istringstream words(group.substr(group.find(':') + 1));
    for (std::string name; words >> name;) {
      if (name != "help") all.push_back(name);
    }
  }
  EXPECT_THAT(all, testing::IsSupersetOf(kWithKubeletFlags));
  return all;
}

std::vector<std::string> subcommands_without_kubelet_flags() {
  std::vector<std::string> without = all_subcommands();
  std::erase_if(without, [](const std::string& each) {
    return std::ranges::find(kWithKubeletFlags, each) != kWithKubeletFlags.end();
  });
  return without;
}

void expect_fits(const std::string& help) {
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_THAT(line, SizeIs(testing::Le(80U)));
    EXPECT_THAT(line, Not(testing::EndsWith(" ")));
  }
}

TEST(Help, EveryHelpTextFitsEightyColumns) {
  expect_fits(output_of({"--help"}));
  for (const std::string& subcommand : all_subcommands()) {
    SCOPED_TRACE(subcommand);
    expect_fits(help_of(subcommand));
  }
}

TEST(Help, SubcommandsAreGrouped) {
  EXPECT_THAT(groups_of(output_of({"--help"})),
              testing::ElementsAre("Guard: agent demo doctor status", "Cluster: cluster rebalance",
                                   "Inspect: signals rank score top events",
                                   "Offline: check-config rules import-oomd earlyoom plan qos "
                                   "admit replay diff report",
                                   "Record and trace: trace record",
                                   "Help: completion version help", "Options: -h --version"));
}

TEST(Help, OwnOptionsComeBeforeSharedOnes) {
  EXPECT_THAT(groups_of(help_of("agent")),
              testing::ElementsAre("Options: --dry-run --oomd-config --oomd-drop-in-dir --run-dir "
                                   "--keep-guard -v --log-format -o -h",
                                   "Host: --disable-feature --cgroup-mount",
                                   "Configuration: -c --kubelet-config",
                                   testing::StartsWith("Kubelet flags (override the files): "
                                                       "--eviction-hard --eviction-soft ")));
  EXPECT_THAT(groups_of(help_of("diff")),
              testing::ElementsAre("Arguments: before after", "Options: -o -h"));
}

TEST(Help, KubeletFlagsAreAcceptedOnlyWhereTheyApply) {
  for (const std::string& subcommand : kWithKubeletFlags) {
    EXPECT_THAT(help_of(subcommand), HasSubstr("\nKubelet flags")) << subcommand;
  }
  for (const std::string& subcommand : subcommands_without_kubelet_flags()) {
    EXPECT_THAT(help_of(subcommand), Not(HasSubstr("--eviction-hard"))) << subcommand;
    const Ran ran = run_forestall({subcommand, "--eviction-hard=memory.available<1Gi"});
    EXPECT_EQ(ran.exit_code, 2) << subcommand;
    // Required options are missing as well, and may be reported first.
    EXPECT_THAT(ran.errors, testing::AnyOf(HasSubstr("eviction-hard"), HasSubstr("required")));
  }
}

TEST(Help, RelationsBetweenOptionsAreShown) {
  const std::string help = help_of("rank");
  EXPECT_THAT(help, HasSubstr("(needs --stats)"));
  EXPECT_THAT(help_of("qos"), HasSubstr("(required)"));
  EXPECT_THAT(help_of("score"), HasSubstr("Usage: forestall score [OPTIONS] [pid...]\n"));
}

TEST(HelpText, LongNamesGetALineOfTheirOwn) {
  const cli::HelpText help{
      "Does this.\nAnd that.",
      "it [OPTIONS]",
      {{"Options",
        {{"-a", "First"}, {"--a-name-longer-than-the-column VALUE", std::string(60, 'x')}}}},
      "The end."};
  EXPECT_EQ(cli::help_text(help),
            "Does this.\nAnd that.\n\nUsage: it [OPTIONS]\n\nOptions:\n"
            "  -a  First\n"
            "  --a-name-longer-than-the-column VALUE\n      " +
                std::string(60, 'x') + "\n\nThe end.\n");
}

}  // namespace
}  // namespace forestall::test
