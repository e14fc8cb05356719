// SPDX-License-Identifier: Apache-2.0
// Messages of PID 1 and of user managers, oomd.conf, and systemd's values. Rows name functions of
// systemd 252, or tests of its suite.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "intake/managed_oom_messages.h"
#include "intake/oomd_conf.h"
#include "intake/systemd_values.h"

namespace forestall::intake {
namespace {

using namespace std::chrono_literals;
using rulesets::ManagedOomProperty;
using rulesets::OomdConf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Messages {
  std::vector<ManagedOomMessage> all;
  std::vector<std::string> errors;
  std::vector<std::string> warnings;
};

Messages read(const std::string& text, int version = 257) {
  text::Findings findings;
  Messages messages;
  messages.all = read_managed_oom_messages(text, "f", version, findings);
  messages.errors = text::format_each(findings.errors);
  messages.warnings = text::format_each(findings.warnings);
  return messages;
}

TEST(ManagedOomMessages, OneALineOrOneInAll) {
  const Messages lines = read(R"({"uid": 0, "parameters": {"cgroups": [)"
                              R"({"mode": "kill", "path": "", "property": "ManagedOOMSwap"}]}}

{"uid": 1000, "parameters": {"cgroups": []}, "continues": true}
)");
  EXPECT_THAT(lines.errors, IsEmpty());
  ASSERT_EQ(lines.all.size(), 2U);
  EXPECT_EQ(lines.all[0].elements.at(0).path, "/");
  EXPECT_EQ(lines.all[0].elements.at(0).property, ManagedOomProperty::swap);
  EXPECT_TRUE(lines.all[0].elements.at(0).kill);
  EXPECT_EQ(lines.all[1].uid, 1000U);
  EXPECT_EQ(lines.all[1].line, 3U);
  const Messages one = read(
      "{\n \"cgroups\": [\n {\"mode\": \"auto\", \"path\": \"/a/\",\n"
      "  \"property\": \"ManagedOOMMemoryPressure\", \"limit\": 7}]}\n");
  ASSERT_EQ(one.all.size(), 1U);
  EXPECT_EQ(one.all[0].elements.at(0).path, "/a");
  EXPECT_EQ(one.all[0].elements.at(0).limit, 7U);
}

// ManagedOOMMessage of 257; before, there is no such field.
TEST(ManagedOomMessages, DurationsAreOf257) {
  const std::string text =
      R"({"cgroups": [{"mode": "kill", "path": "/a", "property": "ManagedOOMMemoryPressure",
           "duration": 5000000},
          {"mode": "kill", "path": "/b", "property": "ManagedOOMMemoryPressure",
           "duration": 18446744073709551615}]})";
  EXPECT_EQ(read(text).all.at(0).elements.at(0).duration, 5s);
  EXPECT_EQ(read(text).all.at(0).elements.at(1).duration, std::nullopt);
  EXPECT_EQ(read(text, 252).all.at(0).elements.at(0).duration, std::nullopt);
}

// sd_json_dispatch_uint32() takes a number as text; the dispatcher of 252 does not.
TEST(ManagedOomMessages, NumbersMayBeTextsSince257) {
  const std::string text =
      R"({"cgroups": [{"mode": "kill", "path": "/a", "property": "ManagedOOMMemoryPressure",
           "limit": "7", "duration": "5000000"}]})";
  EXPECT_EQ(read(text).all.at(0).elements.at(0).limit, 7U);
  EXPECT_EQ(read(text).all.at(0).elements.at(0).duration, 5s);
  EXPECT_THAT(read(text, 252).all.at(0).elements, IsEmpty());
}

// process_managed_oom_message(): the other elements are used.
TEST(ManagedOomMessages, MalformedElementsAreSkipped) {
  const std::string good = R"({"mode": "kill", "path": "/good", "property": "ManagedOOMSwap"})";
  for (const char* bad :
       {"7", "{}", R"({"mode": "kill", "path": "/a"})",
        R"({"mode": "kill", "property": "ManagedOOMSwap"})",
        R"({"path": "/a", "property": "ManagedOOMSwap"})",
        R"({"mode": "die", "path": "/a", "property": "ManagedOOMSwap"})",
        R"({"mode": "kill", "path": 5, "property": "ManagedOOMSwap"})",
        R"({"mode": "kill", "path": "a", "property": "ManagedOOMSwap"})",
        R"({"mode": "kill", "path": "/a", "property": "ManagedOOMCpu"})",
        R"({"mode": "kill", "path": "/a", "property": "ManagedOOMSwap", "limit": -1})",
        R"({"mode": "kill", "path": "/a", "property": "ManagedOOMSwap", "limit": 4294967296})",
        R"({"mode": "kill", "path": "/a", "property": "ManagedOOMSwap", "limit": "60%"})",
        R"({"mode": "kill", "path": "/a", "property": "ManagedOOMSwap", "duration": 0.5})"}) {
    const Messages messages = read(std::string("{\"cgroups\": [") + bad + "," + good + "]}");
    EXPECT_THAT(messages.errors, IsEmpty()) << bad;
    EXPECT_THAT(messages.warnings, ElementsAre(HasSubstr("malformed element, skipped"))) << bad;
    ASSERT_EQ(messages.all.at(0).elements.size(), 1U) << bad;
    EXPECT_EQ(messages.all[0].elements[0].path, "/good");
  }
  // A field of a newer systemd is no reason to skip.
  const Messages newer = read(
      R"({"cgroups": [{"mode": "kill", "path": "/a", "property": "ManagedOOMSwap", "new": [1]}]})");
  EXPECT_EQ(newer.all.at(0).elements.size(), 1U);
}

TEST(ManagedOomMessages, MistakesAreRefusedWithTheirPlace) {
  EXPECT_THAT(read("{\"parameters\": {}}").errors,
              ElementsAre("f:1:16: the message has no list 'cgroups'"));
  EXPECT_THAT(read("{\"cgroups\": []}\n{\"uid\": -1, \"cgroups\": []}").errors,
              ElementsAre("f:2:9: 'uid': expected a user id, found -1"));
  EXPECT_THAT(read("{\"cgroups\": [], \"mode\": 1}").errors,
              ElementsAre(HasSubstr("f:1:17: unknown key 'mode'")));
  EXPECT_THAT(read("[]").errors, ElementsAre("f:1:1: expected an object, found a list"));
  EXPECT_THAT(read("{\"cgroups\": []}\n{\"cgroups\": [}").errors,
              ElementsAre(HasSubstr("f:2:14: ")));
}

// process_managed_oom_message(): uid != 0
TEST(ManagedOomMessages, UsersReportTheirOwnCgroups) {
  const Messages messages = read(R"({"uid": 1000, "parameters": {"cgroups": [
    {"mode": "kill", "path": "/u/a", "property": "ManagedOOMSwap"},
    {"mode": "kill", "path": "/u/unreadable", "property": "ManagedOOMSwap"},
    {"mode": "kill", "path": "/u/b", "property": "ManagedOOMSwap"},
    {"mode": "kill", "path": "/system", "property": "ManagedOOMSwap"},
    {"mode": "kill", "path": "/u/c", "property": "ManagedOOMSwap"}]}})");
  text::Findings findings;
  const CgroupOwners owners = read_cgroup_owners(
      R"({"/u/a": 1000, "/u/b/": 1000, "/u/c": 1000, "/u/unreadable": null})", "o", findings);
  EXPECT_TRUE(findings.errors.empty());
  rulesets::ManagedOomRules rules;
  const auto refused = apply_managed_oom(messages.all.at(0), {}, owners, rules);
  EXPECT_THAT(rules.swap, ElementsAre("/u/a", "/u/b"));
  EXPECT_THAT(refused,
              ElementsAre("/u/unreadable: skipped, its owner is unreadable",
                          "/system: owned by uid 0, not by the sender, uid 1000; the rest of the "
                          "message is refused"));
  // PID 1 may report any cgroup.
  ManagedOomMessage of_root = messages.all.at(0);
  of_root.uid = 0;
  EXPECT_THAT(apply_managed_oom(of_root, {}, owners, rules), IsEmpty());
  EXPECT_EQ(rules.swap.size(), 5U);
  (void)read_cgroup_owners(R"({"/a": "root"})", "o", findings);
  EXPECT_THAT(text::format_each(findings.errors),
              ElementsAre("o:1:8: '/a': expected a user id, found 'root'"));
}

TEST(ManagedCandidates, AreRead) {
  text::Findings findings;
  const auto candidates = read_managed_candidates(
      R"({"/a": {"swap_current": 5, "pgscan": 18446744073709551615, "last_pgscan": 1, "current": 9,
                 "preference": "avoid"}, "/b": {}})",
      "c", findings);
  EXPECT_TRUE(findings.errors.empty());
  ASSERT_EQ(candidates.size(), 2U);
  EXPECT_EQ(candidates[0].pgscan, 18446744073709551615U);
  EXPECT_EQ(candidates[0].preference, rulesets::ManagedPreference::avoid);
  EXPECT_EQ(candidates[1].usage, 0U);
  (void)read_managed_candidates(R"({"/a": {"pgscan": -1, "prefer": 1, "preference": "x"}})", "c",
                                findings);
  EXPECT_THAT(text::format_each(findings.errors),
              ElementsAre("c:1:19: 'pgscan': expected a number from 0, found -1",
                          HasSubstr("c:1:23: unknown key 'prefer'"),
                          HasSubstr("c:1:50: 'preference': expected one of")));
}

struct PermyriadRow {
  const char* text;
  std::optional<std::int64_t> value;
};

// parse_permyriad(), test_parse_permyriad() of src/test/test-percent-util.c
TEST(SystemdValues, Permyriad) {
  const PermyriadRow rows[] = {
      {"", std::nullopt},
      {"foo", std::nullopt},
      {"0", std::nullopt},
      {"50", std::nullopt},
      {"100", std::nullopt},
      {"-1", std::nullopt},
      {"0%", 0},
      {"55%", 5500},
      {"100%", 10000},
      {"-7%", std::nullopt},
      {"107%", std::nullopt},
      {"%", std::nullopt},
      {"%%", std::nullopt},
      {"%1", std::nullopt},
      {"1%%", std::nullopt},
      {"3.2%", 320},
      {"3.02%", 302},
      {"0.07%", 7},
      {"100.01%", std::nullopt},
      {"3.%", std::nullopt},
      {"3.021%", std::nullopt},
      {"3.a%", std::nullopt},
      {"0‰", 0},
      {"555‰", 5550},
      {"1000‰", 10000},
      {"-7‰", std::nullopt},
      {"1007‰", std::nullopt},
      {"‰", std::nullopt},
      {"3.2‰", 32},
      {"3.02‰", std::nullopt},
      {"0‱", 0},
      {"555‱", 555},
      {"10000‱", 10000},
      {"10001‱", std::nullopt},
      {"3.2‱", std::nullopt},
      {" 5%", 500},
      {"+5%", 500},
      {"0x10%", 1600},
      {"010%", 800},
      {"5 %", std::nullopt},
      {"--5%", std::nullopt},
      {"99999999999999999999%", std::nullopt},
  };
  for (const PermyriadRow& row : rows) EXPECT_EQ(parse_permyriad(row.text), row.value) << row.text;
}

struct SpanRow {
  const char* text;
  std::optional<std::chrono::microseconds> value;
};

// parse_sec(), test_parse_sec() of src/test/test-time-util.c
TEST(SystemdValues, Span) {
  const SpanRow rows[] = {
      {"5s", 5s},
      {"5s500ms", 5500ms},
      {" 5s 500ms  ", 5500ms},
      {" 5.5s  ", 5500ms},
      {" 5.5s 0.5ms ", 5500500us},
      {" .22s ", 220ms},
      {" .50y ", 15778800s},
      {"2.5", 2500ms},
      {".7", 700ms},
      {"23us", 23us},
      {"23µs", 23us},
      {"23μs", 23us},
      {"infinity", kInfiniteSpan},
      {" infinity ", kInfiniteSpan},
      {"+3.1s", 3100ms},
      {"3.1s.2", 3300ms},
      {"3.1 .2", 3300ms},
      {"3.1 sec .2 sec", 3300ms},
      {"20s", 20s},
      {"1min 30s", 90s},
      {"1h30m", 5400s},
      {"1M", 2629800s},
      {"2d1w", 777600s},
      {"0", 0s},
      {"500ms", 500ms},
      {"", std::nullopt},
      {" xyz ", std::nullopt},
      {" xyz infinity", std::nullopt},
      {" infinity xyz ", std::nullopt},
      {"-5s", std::nullopt},
      {"5 x", std::nullopt},
      {".s", std::nullopt},
      {"3.", std::nullopt},
      {"12.34.56", std::nullopt},
      {"99999999999999999y", std::nullopt},
  };
  for (const SpanRow& row : rows) EXPECT_EQ(parse_systemd_span(row.text), row.value) << row.text;
}

struct Conf {
  OomdConf conf;
  std::vector<std::string> errors;
  std::vector<std::string> warnings;
};

Conf conf(const std::string& text, int version = 257) {
  text::Findings findings;
  Conf read;
  read.conf = read_oomd_conf(text, "oomd.conf", version, findings);
  read.errors = text::format_each(findings.errors);
  read.warnings = text::format_each(findings.warnings);
  return read;
}

TEST(OomdConf, DefaultsAndValues) {
  EXPECT_EQ(conf("").conf, (OomdConf{9000, 6000, 30s}));
  const Conf given = conf(
      "# comment\n; another\n\n[OOM]\n SwapUsedLimit = 80%\nDefaultMemoryPressureLimit=505‰\n"
      "DefaultMemoryPressureDurationSec=1min \\\n 5s\n");
  EXPECT_THAT(given.errors, IsEmpty());
  EXPECT_THAT(given.warnings, IsEmpty());
  EXPECT_EQ(given.conf, (OomdConf{8000, 5050, 65s}));
  EXPECT_EQ(conf("[OOM]\nSwapUsedLimit=0%\n").conf.swap_used_limit, 0);
  EXPECT_EQ(conf("[OOM]\nSwapUsedLimit=80%\nSwapUsedLimit=70%\n").conf.swap_used_limit, 7000);
  EXPECT_EQ(conf("[OOM]\nDefaultMemoryPressureDurationSec=0\n").conf.pressure_duration, 30s);
  EXPECT_EQ(conf("\xef\xbb\xbf[OOM]\nSwapUsedLimit=70%\n").conf.swap_used_limit, 7000);
}

// config_parse_sec() of 252, config_parse_duration() of 257.
TEST(OomdConf, AnInfiniteDurationIsIgnoredSince257) {
  const std::string text = "[OOM]\nDefaultMemoryPressureDurationSec=infinity\n";
  EXPECT_EQ(conf(text, 252).conf.pressure_duration, kInfiniteSpan);
  EXPECT_THAT(conf(text, 252).warnings, IsEmpty());
  EXPECT_EQ(conf(text).conf.pressure_duration, 30s);
  EXPECT_THAT(conf(text).warnings, ElementsAre(HasSubstr("must be finite")));
}

// config_parse(): a bad value leaves the earlier one.
TEST(OomdConf, BadLinesAreWarnings) {
  const Conf bad = conf(
      "SwapUsedLimit=1%\n[OOM]\nSwapUsedLimit=80%\nSwapUsedLimit=lots\nSwapUsedLimits=3%\nword\n"
      "DefaultMemoryPressureLimit=\n[Other]\nSwapUsedLimit=2%\n[X-Own]\nSwapUsedLimit=2%\n");
  EXPECT_THAT(bad.errors, IsEmpty());
  EXPECT_EQ(bad.conf, (OomdConf{8000, 6000, 30s}));
  EXPECT_THAT(
      bad.warnings,
      ElementsAre("oomd.conf:1:1: assignment outside of a section; ignored",
                  "oomd.conf:4:15: 'SwapUsedLimit' must be a percentage from 0% to 100%, found "
                  "'lots'; ignored",
                  "oomd.conf:5:1: unknown key 'SwapUsedLimits'; ignored; did you mean "
                  "'SwapUsedLimit'?",
                  "oomd.conf:6:1: no '=' in the line; ignored",
                  "oomd.conf:7:28: 'DefaultMemoryPressureLimit' must be a percentage from 0% to "
                  "100%, found ''; ignored",
                  "oomd.conf:8:1: unknown section 'Other'; ignored"));
}

// oomd.c run(): below one second 252 exits, 257 warns.
TEST(OomdConf, ShortDurations) {
  const std::string text = "[OOM]\nDefaultMemoryPressureDurationSec=500ms\n";
  EXPECT_THAT(conf(text, 252).errors,
              ElementsAre(HasSubstr("oomd.conf:2:34: 'DefaultMemoryPressureDurationSec' must be at "
                                    "least 1s, found '500ms'")));
  EXPECT_THAT(conf(text).errors, IsEmpty());
  EXPECT_THAT(conf(text).warnings, ElementsAre(HasSubstr("ignored")));
  EXPECT_EQ(conf(text).conf.pressure_duration, 30s);
  const Conf corrected = conf(text + "DefaultMemoryPressureDurationSec=5s\n", 252);
  EXPECT_THAT(corrected.errors, IsEmpty());
  EXPECT_EQ(corrected.conf.pressure_duration, 5s);
}

TEST(OomdConf, ABadSectionHeaderRefusesTheFile) {
  EXPECT_THAT(conf("[OOM\nSwapUsedLimit=1%\n").errors,
              ElementsAre("oomd.conf:1:1: '[OOM' is no section header, such as [OOM]"));
}

}  // namespace
}  // namespace forestall::intake
