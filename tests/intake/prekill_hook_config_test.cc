// SPDX-License-Identifier: Apache-2.0
// The section `prekillHooks` of the configuration, and the hooks of oomd.json.
#include "intake/prekill_hook_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "config_text.h"
#include "intake/oomd_import.h"

namespace forestall::intake {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Result<LoadedConfig> load_hooks(const std::string& text) {
  return test::load_text(text, [](const std::string& path) -> Result<std::string> {
    return Error{ENOENT, path};
  });
}

std::string hook_refusal(const std::string& hook) {
  const auto loaded = load_hooks("prekillHooks:\n" + hook);
  return loaded ? "accepted" : loaded.error().message;
}

TEST(PrekillHookConfig, ReadsEachKind) {
  const auto loaded = load_hooks(
      "prekillHooks:\n"
      "- {name: dump, cgroups: [/batch.slice/*], program: /usr/sbin/dump, arguments: [-a, b c]}\n"
      "- {name: notify, socket: /run/hooks.sock}\n"
      "- {name: note, log: a kill follows}\n");
  ASSERT_TRUE(loaded) << loaded.error().text();
  ASSERT_EQ(loaded->hooks.size(), 3U);
  EXPECT_EQ(loaded->hooks[0].program, "/usr/sbin/dump");
  EXPECT_THAT(loaded->hooks[0].arguments, ElementsAre("-a", "b c"));
  EXPECT_EQ(loaded->hooks[0].cgroups, (rulesets::CgroupPatterns{{{"batch.slice", "*"}}}));
  EXPECT_EQ(loaded->hooks[1].socket, "/run/hooks.sock");
  EXPECT_EQ(loaded->hooks[1].cgroups, rulesets::CgroupPatterns{{}}) << "all victims";
  EXPECT_TRUE(loaded->hooks[2].only_logs());
  EXPECT_EQ(loaded->hooks[2].log, "a kill follows");
}

TEST(PrekillHookConfig, RefusesWithThePlace) {
  EXPECT_THAT(hook_refusal("- {name: a}\n"), HasSubstr("config.yaml:2:3: 'program' is missing"));
  EXPECT_THAT(hook_refusal("- {program: /a}\n"), HasSubstr("'name' is missing"));
  EXPECT_THAT(hook_refusal("- {name: '', program: /a}\n"), HasSubstr("'name' must not be empty"));
  EXPECT_THAT(hook_refusal("- {name: a, program: /a}\n- {name: a, program: /b}\n"),
              HasSubstr("config.yaml:3:10: the name 'a' is already used in line 2"));
  EXPECT_THAT(hook_refusal("- {name: a, program: /a, socket: /b}\n"),
              HasSubstr("exclude each other"));
  EXPECT_THAT(hook_refusal("- {name: a, socket: /a, arguments: [x]}\n"),
              HasSubstr("no effect without 'program'"));
  EXPECT_THAT(hook_refusal("- {name: a, log: ''}\n"), HasSubstr("'log' must not be empty"));
  EXPECT_THAT(hook_refusal("- {name: a, program: /a, cgroups: []}\n"),
              HasSubstr("'cgroups' is empty"));
  EXPECT_THAT(hook_refusal("- {name: a, program: /a, cgroups: [/b/c*]}\n"),
              HasSubstr("whole components: write a name or *, found 'c*'"));
  EXPECT_THAT(hook_refusal("- {name: a, program: /a, timeout: 5s}\n"), HasSubstr("timeout"));
}

TEST(PrekillHookConfig, APathMeansOneFile) {
  for (const char* path :
       {"dump", "./dump", "/usr/../dump", "/usr/./dump", "/usr//dump", "/usr/"}) {
    EXPECT_THAT(hook_refusal(std::string("- {name: a, program: ") + path + "}\n"),
                HasSubstr("must be an absolute path"))
        << path;
  }
  EXPECT_EQ(hook_refusal("- {name: a, program: /usr/..dump/.x}\n"), "accepted");
  EXPECT_THAT(hook_refusal("- {name: a, socket: /" + std::string(120, 's') + "}\n"),
              HasSubstr("longer than 107 bytes"));
}

TEST(PrekillHookConfig, TheTimeOfARulesetIsBounded) {
  const std::string ruleset =
      "rulesets:\n- {name: r, detectors: [{name: g, all: [{always: true}]}], actions: [{log: x}], "
      "prekillHookTimeout: ";
  const auto loaded = load_hooks(ruleset + "5m}\n");
  ASSERT_TRUE(loaded) << loaded.error().text();
  EXPECT_EQ(loaded->rulesets[0].prekill_hook_timeout, 300);
  for (const char* time : {"301s", "1500ms", "-1s", "5"}) {
    const auto refused = load_hooks(ruleset + time + "}\n");
    ASSERT_FALSE(refused) << time;
    EXPECT_THAT(refused.error().message, HasSubstr("config.yaml:2:")) << time;
    EXPECT_THAT(refused.error().message, HasSubstr("prekillHookTimeout")) << time;
  }
}

constexpr const char* kOomdWithHooks = R"({"rulesets": [{"name": "r", "prekill_hook_timeout": 9,
  "detectors": [["g", {"name": "continue"}]], "actions": [{"name": "stop"}]}],
  "prekill_hooks": [{"name": "dummy_prekill_hook", "args": {"cgroup": "a/*,b"}},
                    {"name": "dummy_prekill_hook", "args": {"cgroup": ""}}]})";

TEST(OomdHookImport, OomdsHookLogsAndKeepsItsTimeAndCgroups) {
  text::Findings findings;
  const auto oomd = parse_oomd_config("oomd.json", kOomdWithHooks, findings);
  ASSERT_TRUE(oomd);
  const auto imported = import_oomd("oomd.json", *oomd, findings);
  ASSERT_TRUE(imported) << text::format(findings.errors);
  EXPECT_EQ(imported->rulesets[0].prekill_hook_timeout, 9);
  ASSERT_EQ(imported->hooks.size(), 1U);
  EXPECT_EQ(imported->hooks[0].name, "dummy_prekill_hook 1");
  EXPECT_EQ(imported->hooks[0].cgroups, (rulesets::CgroupPatterns{{{"a", "*"}}, {{"b"}}}));
  EXPECT_EQ(imported->hooks[0].log, "prekill hook dummy_prekill_hook");
  EXPECT_THAT(imported->notes, ElementsAre(HasSubstr("prekill hook 2")));
}

TEST(OomdHookImport, WhatCannotBeExpressedIsRefusedByNameAndPlace) {
  text::Findings unknown;
  EXPECT_FALSE(parse_oomd_config("oomd.json",
                                 "{\"rulesets\": [],\n \"prekill_hooks\": [{\"name\": \"dump\", "
                                 "\"args\": {\"cgroup\": \"a\"}}]}",
                                 unknown));
  EXPECT_THAT(text::format(unknown.errors),
              HasSubstr("oomd.json:2:29: unknown prekill hook 'dump'"));
  text::Findings too_long;
  const auto oomd =
      parse_oomd_config("oomd.json",
                        R"({"rulesets": [{"name": "r", "prekill_hook_timeout": 301, "detectors":
      [["g", {"name": "continue"}]], "actions": [{"name": "stop"}]}]})",
                        too_long);
  ASSERT_TRUE(oomd);
  EXPECT_FALSE(import_oomd("oomd.json", *oomd, too_long));
  EXPECT_THAT(text::format(too_long.errors), HasSubstr("prekillHookTimeout"));
}

}  // namespace
}  // namespace forestall::intake
