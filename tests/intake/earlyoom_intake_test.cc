// SPDX-License-Identifier: Apache-2.0
// earlyoom's options and the inputs of `forestall earlyoom`. Rows of levels are those of
// TestParseTuple of earlyoom's suite, or name a function of earlyoom.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "intake/earlyoom_input.h"
#include "intake/earlyoom_options.h"

namespace forestall::intake {
namespace {

using rulesets::EarlyoomOptions;
using rulesets::EarlyoomThresholds;
using rulesets::EarlyoomVersion;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr EarlyoomTotals kTotals{990'000, 99'000};

struct Outcome {
  EarlyoomOptions options;
  std::vector<std::string> errors;
  std::vector<std::string> warnings;
};

Outcome read(const std::vector<GivenOption>& given, EarlyoomVersion version = EarlyoomVersion::v1_9,
             const EarlyoomTotals& totals = kTotals) {
  text::Findings findings;
  Outcome outcome;
  outcome.options = read_earlyoom_options(version, given, totals, findings);
  outcome.errors = text::format_each(findings.errors);
  outcome.warnings = text::format_each(findings.warnings);
  return outcome;
}

struct LevelRow {
  std::string argument;
  double term;
  double kill;
};

TEST(EarlyoomOptions, LevelsAreReadAsEarlyoomReadsThem) {
  const LevelRow rows[] = {
      {"2,1", 2, 1},
      {"20,10", 20, 10},
      {"30", 30, 15},
      {"5,0", 5, 0},
      {"5,9", 9, 9},
      {"0,5", 5, 5},
      {"4,5", 5, 5},
      {"4.0,2.0", 4, 2},
      {"3.1415,2.7182", 3.1415, 2.7182},
      {"3.1415", 3.1415, 3.1415 / 2},
      // strtod(): exponents, hexadecimal, blanks before; an empty part is 0
      {"1e1,0x4", 10, 4},
      {" 7,\t6", 7, 6},
      {"8,", 8, 0},
      {",3", 3, 3},
      {"-0,5", 5, 5},
      {"+6", 6, 3},
      {"99", 99, 49.5},
  };
  for (const LevelRow& row : rows) {
    const Outcome outcome = read({{"-m", row.argument}});
    EXPECT_THAT(outcome.errors, IsEmpty()) << row.argument;
    EXPECT_EQ(outcome.options.thresholds.mem_term, row.term) << row.argument;
    EXPECT_EQ(outcome.options.thresholds.mem_kill, row.kill) << row.argument;
  }
  EXPECT_THAT(read({{"-m", "4,5"}}).warnings,
              ElementsAre("-m: the level of SIGTERM, 4, is below that of SIGKILL, 5; both become "
                          "5"));
  EXPECT_EQ(read({{"-s", "100"}}).options.thresholds.swap_term, 100);
}

TEST(EarlyoomOptions, BadLevelsAreRefused) {
  const std::string long_number = "1." + std::string(300, '3');
  for (const std::string& argument : {std::string("22[,20]"), std::string("0"),
                                      std::string("0,0"),     std::string(""),
                                      std::string(","),       std::string("4,0,2,0"),
                                      std::string("x1,x2"),   std::string("1,x2"),
                                      std::string("1x,2x"),   std::string("1.1."),
                                      std::string("1,2.."),   std::string("5 "),
                                      std::string("-1"),      std::string("5,-1"),
                                      std::string("99.5"),    std::string("5,100"),
                                      std::string("inf"),     std::string("nan"),
                                      std::string("5,nan"),   std::string("1e-400"),
                                      std::string("1e400"),   long_number}) {
    EXPECT_FALSE(read({{"-m", argument}}).errors.empty()) << argument;
  }
  EXPECT_THAT(read({{"-m", "100"}}).errors, ElementsAre("-m: '100': exceeds the limit 99"));
  EXPECT_THAT(read({{"-s", "101"}}).errors, ElementsAre("-s: '101': exceeds the limit 100"));
  EXPECT_THAT(read({{"-m", "nan"}}).errors,
              ElementsAre("-m: 'nan': not a level (earlyoom accepts it and never acts)"));
}

// main.c: -M and -S are sizes of up to a hundred 99ths of the total.
TEST(EarlyoomOptions, SizesBecomePercentages) {
  const EarlyoomThresholds levels = read({{"-M", "99000"}, {"-S", "9900,990"}}).options.thresholds;
  EXPECT_EQ(levels, (EarlyoomThresholds{10, 5, 10, 1}));
  EXPECT_EQ(read({{"-M", "1000000"}}).errors.size(), 0U);
  EXPECT_THAT(read({{"-M", "1000001"}}).errors,
              ElementsAre("-M: '1000001': exceeds the limit 1000000"));
  // The lower one of each level counts, whatever the order.
  EXPECT_EQ(read({{"-m", "20,1"}, {"-M", "99000,49500"}}).options.thresholds.mem_term, 10);
  EXPECT_EQ(read({{"-M", "99000,49500"}, {"-m", "20,1"}}).options.thresholds.mem_kill, 1);
  // main.c: the limit is 0, so the warning about missing swap is never reached.
  EXPECT_FALSE(read({{"-S", "1"}}, EarlyoomVersion::v1_7, {990'000, 0}).errors.empty());
  EXPECT_FALSE(read({{"-S", "0"}}, EarlyoomVersion::v1_7, {990'000, 0}).errors.empty());
}

TEST(EarlyoomOptions, TheLastOfEqualOptionsCounts) {
  EXPECT_EQ(read({{"-m", "20"}, {"-m", "8"}}).options.thresholds.mem_term, 8);
  EXPECT_EQ(read({{"--prefer", "a"}, {"--prefer", "b"}}).options.prefer, "b");
  // An earlier mistake counts all the same: earlyoom exits at once.
  EXPECT_FALSE(read({{"-m", "x"}, {"-m", "8"}}).errors.empty());
}

TEST(EarlyoomOptions, ReportIntervalIsAPrefixOfDigits) {
  EXPECT_EQ(read({{"-r", "3600"}}).options.report_interval_ms, 3'600'000);
  EXPECT_EQ(read({{"-r", "0.5"}}).options.report_interval_ms, 500);
  EXPECT_EQ(read({{"-r", "0"}}).options.report_interval_ms, 0);
  EXPECT_EQ(read({{"-r", "1e30"}}).options.report_interval_ms, 2147483647);
  const Outcome word = read({{"-r", "often"}});
  EXPECT_EQ(word.options.report_interval_ms, 0);
  EXPECT_THAT(word.warnings, ElementsAre("-r: 'often' is not a number: memory reports are off"));
  EXPECT_THAT(read({{"-r", "-1"}}).errors, ElementsAre("-r: invalid interval '-1'"));
  EXPECT_FALSE(read({{"-r", "5s"}}).errors.empty());
}

TEST(EarlyoomOptions, FlagsAndPrograms) {
  const EarlyoomOptions options = read({{"-n", ""},
                                        {"-g", ""},
                                        {"-p", ""},
                                        {"-d", ""},
                                        {"--dryrun", ""},
                                        {"--syslog", ""},
                                        {"--sort-by-rss", ""},
                                        {"--ignore-root-user", ""},
                                        {"-N", "/a"},
                                        {"-P", "/b"},
                                        {"--avoid", "x"},
                                        {"--ignore", "y"}})
                                      .options;
  EXPECT_TRUE(options.notify_dbus && options.process_group && options.raise_priority);
  EXPECT_TRUE(options.debug && options.dry_run && options.syslog);
  EXPECT_TRUE(options.sort_by_rss && options.ignore_root_user);
  EXPECT_EQ(options.program_after, "/a");
  EXPECT_EQ(options.program_before, "/b");
  EXPECT_EQ(options.avoid, "x");
  EXPECT_EQ(options.ignore, "y");
  const Outcome relative = read({{"-N", "notify"}, {"-k", ""}, {"-i", ""}});
  EXPECT_EQ(relative.options.program_after, std::nullopt);
  EXPECT_THAT(relative.warnings,
              ElementsAre("-N: 'notify' is not an absolute path: the option is off",
                          "-k: accepted and ignored, as by earlyoom",
                          "-i: accepted and ignored, as by earlyoom"));
}

TEST(EarlyoomOptions, Version17LacksLaterOptions) {
  for (const char* name :
       {"--ignore", "--ignore-root-user", "--sort-by-rss", "--syslog", "--debug", "-P"}) {
    EXPECT_THAT(read({{name, "/x"}}, EarlyoomVersion::v1_7).errors,
                ElementsAre(HasSubstr("earlyoom 1.7 does not have this option")))
        << name;
  }
  EXPECT_THAT(read({{"-g", ""}, {"--dryrun", ""}}, EarlyoomVersion::v1_7).errors, IsEmpty());
}

rulesets::EarlyoomMemory meminfo(const std::string& text, std::vector<std::string>* errors,
                                 EarlyoomVersion version = EarlyoomVersion::v1_9) {
  text::Findings findings;
  const auto memory = read_earlyoom_meminfo(text, "meminfo", version, findings);
  if (errors != nullptr) *errors = text::format_each(findings.errors);
  return memory;
}

TEST(EarlyoomMeminfo, ReadsWhatTheVersionNeeds) {
  std::vector<std::string> errors;
  const auto memory = meminfo(
      "MemTotal:       16384 kB\nMemAvailable:    8192 kB\nHugePages_Total: 0\nAnonPages: 4096 kB\n"
      "SwapTotal:       1024 kB\nSwapFree:         512 kB\nMemTotal: 1 kB\n",
      &errors);
  EXPECT_THAT(errors, IsEmpty());
  EXPECT_EQ(memory.total, 16384);
  EXPECT_EQ(memory.available, 8192);
  EXPECT_EQ(memory.anon_pages, 4096);
  EXPECT_EQ(memory.swap_total, 1024);
  EXPECT_EQ(memory.swap_free, 512);
  const std::string old =
      "MemTotal: 100 kB\nMemAvailable: 50 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n";
  meminfo(old, &errors, EarlyoomVersion::v1_7);
  EXPECT_THAT(errors, IsEmpty());
  meminfo(old, &errors);
  EXPECT_THAT(errors, ElementsAre("meminfo: AnonPages is missing"));
}

// meminfo.c available_guesstimate().
TEST(EarlyoomMeminfo, EstimatesWhatOldKernelsLack) {
  const auto memory = meminfo(
      "MemTotal: 1000 kB\nMemFree: 100 kB\nBuffers: 20 kB\nCached: 300 kB\nSwapCached: 9 kB\n"
      "Shmem: 50 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n",
      nullptr, EarlyoomVersion::v1_7);
  EXPECT_EQ(memory.available, 370);
}

TEST(EarlyoomMeminfo, MistakesAreRefusedWithTheirPlace) {
  std::vector<std::string> errors;
  meminfo("MemTotal:   many kB\nMemAvailable: 1 kB\nAnonPages: 1 kB\nSwapTotal: 0 kB\n", &errors);
  EXPECT_THAT(errors, testing::UnorderedElementsAre("meminfo: SwapFree is missing",
                                                    "meminfo:1:13: MemTotal must be a number of "
                                                    "kB"));
  meminfo("MemTotal: 0 kB\nMemAvailable: 0 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n", &errors,
          EarlyoomVersion::v1_7);
  EXPECT_THAT(errors, ElementsAre("meminfo: MemTotal is 0"));
}

constexpr const char* kProcess =
    R"({"pid": 7, "ppid": 1, "uid": 0, "comm": "a b", "oom_score": 3, "oom_score_adj": -5,
        "rss_kib": 9)";

TEST(EarlyoomProcesses, AreReadInOrder) {
  text::Findings findings;
  const auto processes = read_earlyoom_processes(
      std::string("[") + kProcess + "}, " + kProcess + R"(, "threads": 2, "state": "Z"}])", "p",
      findings);
  EXPECT_THAT(text::format_each(findings.errors), IsEmpty());
  ASSERT_EQ(processes.size(), 2U);
  EXPECT_EQ(processes[0].pid, 7);
  EXPECT_EQ(processes[0].comm, "a b");
  EXPECT_EQ(processes[0].oom_score_adj, -5);
  EXPECT_EQ(processes[1].rss_kib, 9);
}

TEST(EarlyoomProcesses, MistakesAreRefusedWithTheirPlace) {
  text::Findings findings;
  (void)read_earlyoom_processes("[{\"pid\": 7,\n \"swap\": 1, \"uid\": -1, \"comm\": 5}, 3]", "p",
                                findings);
  EXPECT_THAT(text::format_each(findings.errors),
              testing::IsSupersetOf({"p:1:2: 'ppid' is missing", "p:1:2: 'rss_kib' is missing",
                                     "p:2:20: 'uid': expected a number from 0, found -1",
                                     "p:2:32: 'comm': expected a string, found 5",
                                     "p:2:36: expected an object, found 3"}));
  text::Findings of_object;
  (void)read_earlyoom_processes("{}", "p", of_object);
  EXPECT_THAT(text::format_each(of_object.errors),
              ElementsAre("p:1:1: expected a list of processes, found an object"));
}

TEST(EarlyoomProcesses, AreMatchedByTheirName) {
  std::vector<rulesets::EarlyoomProcess> processes(3);
  processes[0].comm = "firefox";
  processes[1].comm = "Web Content";
  processes[2].comm = "sshd";
  EarlyoomOptions options;
  options.prefer = "^(Web|Isolated)";  // POSIX extended
  options.avoid = "ssh";               // unanchored
  options.ignore = "f{2}|fox$";
  text::Findings findings;
  match_earlyoom_processes(options, processes, findings);
  EXPECT_TRUE(findings.errors.empty());
  EXPECT_TRUE(processes[1].preferred && processes[2].avoided && processes[0].ignored);
  EXPECT_FALSE(processes[0].preferred || processes[0].avoided || processes[2].ignored);
  options.prefer = "(";
  match_earlyoom_processes(options, processes, findings);
  EXPECT_THAT(text::format_each(findings.errors),
              ElementsAre(HasSubstr("--prefer: cannot compile the regular expression '('")));
}

}  // namespace
}  // namespace forestall::intake
