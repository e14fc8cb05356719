// SPDX-License-Identifier: Apache-2.0
// `forestall completion`: what bash offers with the printed script, and that the other shells can
// read theirs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <regex>
#include <sstream>

#include "support/agent_run.h"
#include "support/temp_tree.h"

namespace forestall::test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

class Completion : public testing::Test {
 protected:
  Completion() {
    tree_.write("script", run_forestall({"completion", "bash"}).output);
    tree_.write("data/pods.json", "");
    // Fills COMP_WORDS as bash does, with the cursor at the end of the last word.
    tree_.write("complete",
                "source '" + (tree_ / "script") + "' || exit\ncd '" + (tree_ / "data") +
                    "' || exit\nCOMP_WORDS=(\"$@\") COMP_CWORD=$(($# - 1))\n_forestall\n"
                    "printf '%s\\n' \"${COMPREPLY[@]}\"\n");
  }

  // What bash offers for the last word.
  [[nodiscard]] std::vector<std::string> offered(const std::string& command_line) const {
    const std::string command =
        "bash '" + (tree_ / "complete") + "' " + command_line + " >'" + (tree_ / "offered") + "'";
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    return words_of(read_text(tree_ / "offered"));
  }

  TempTree tree_;
};

TEST_F(Completion, OffersSubcommands) {
  EXPECT_THAT(offered("forestall ra"), ElementsAre("rank"));
  EXPECT_THAT(offered("forestall ''"), IsSupersetOf({"agent", "events", "completion", "help"}));
  EXPECT_THAT(offered("forestall --v"), ElementsAre("--version"));
  EXPECT_THAT(offered("forestall help to"), ElementsAre("top"));
  EXPECT_THAT(offered("forestall nothing -"), IsEmpty());
}

TEST_F(Completion, OffersTheOptionsOfTheSubcommand) {
  EXPECT_THAT(offered("forestall rank --"),
              AllOf(IsSupersetOf({"--kernel", "--output", "--eviction-hard", "--help"}),
                    Not(Contains("--at"))));
  EXPECT_THAT(offered("forestall rank --kernel --al"), ElementsAre("--all", "--allocating"));
}

TEST_F(Completion, OffersTheValuesOfAChoice) {
  EXPECT_THAT(offered("forestall rank -o ''"), ElementsAre("text", "json"));
  EXPECT_THAT(offered("forestall report x --format ''"), ElementsAre("html", "md", "png", "json"));
  EXPECT_THAT(offered("forestall top --color = a"), ElementsAre("auto", "always"));
  EXPECT_THAT(offered("forestall top --color ="), ElementsAre("auto", "always", "never"));
  EXPECT_THAT(offered("forestall doctor --disable-feature bpf-oom"),
              ElementsAre("bpf-oom", "bpf-oom-path"));
  EXPECT_THAT(offered("forestall events --kind oom"), ElementsAre("oom-kill"));
  EXPECT_THAT(offered("forestall completion z"), ElementsAre("zsh"));
}

TEST_F(Completion, OffersPathsWhereAPathIsTaken) {
  EXPECT_THAT(offered("forestall replay po"), ElementsAre("pods.json"));
  EXPECT_THAT(offered("forestall rank --pods po"), ElementsAre("pods.json"));
  EXPECT_THAT(offered("forestall record -o ''"), ElementsAre("pods.json"));
  EXPECT_THAT(offered("forestall status --run-dir /pro"), ElementsAre("/proc"));
  EXPECT_THAT(offered("forestall status --run-dir po"), IsEmpty()) << "a file is no directory";
  EXPECT_THAT(offered("forestall rank --cgroup po"), IsEmpty()) << "a cgroup is no file";
  EXPECT_THAT(offered("forestall version po"), IsEmpty());
}

// Whatever the help lists.
TEST_F(Completion, HasEveryOptionOfEverySubcommand) {
  const std::regex option("\n  (?:-[a-z], )?(--[a-z0-9-]+)");
  for (const std::string& subcommand : offered("forestall ''")) {
    if (subcommand == "help") continue;
    const std::string help = run_forestall({subcommand, "--help"}).output;
    const auto words = offered("forestall " + subcommand + " --");
    std::size_t count = 0;
    for (std::sregex_iterator each(help.begin(), help.end(), option), end; each != end; ++each) {
      EXPECT_THAT(words, Contains((*each)[1].str())) << subcommand;
      ++count;
    }
    EXPECT_GT(count, 0U) << subcommand;
  }
}

class CompletionSyntax : public Completion, public testing::WithParamInterface<std::string> {};

TEST_P(CompletionSyntax, IsValid) {
  const std::string& shell = GetParam();
  if (std::system(("command -v " + shell + " >/dev/null").c_str()) != 0) {
    GTEST_SKIP() << "not applicable: needs the package " << shell
                 << "; runs where scripts/install_packages.sh test was run, as in the stage host";
  }
  tree_.write("other", run_forestall({"completion", shell}).output);
  EXPECT_EQ(std::system((shell + " -n '" + (tree_ / "other") + "'").c_str()), 0);
}

INSTANTIATE_TEST_SUITE_P(Shells, CompletionSyntax, testing::Values("bash", "zsh", "fish"),
                         [](const auto& shell) { return shell.param; });

TEST(CompletionUsage, AnotherShellIsRefused) {
  const Ran ran = run_forestall({"completion", "tcsh"});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_THAT(ran.errors, testing::HasSubstr("unknown value 'tcsh'; use one of: bash, zsh, fish"));
  EXPECT_EQ(run_forestall({"completion"}).exit_code, 2);
}

}  // namespace
}  // namespace forestall::test
