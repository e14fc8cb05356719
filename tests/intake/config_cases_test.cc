// SPDX-License-Identifier: Apache-2.0
// Every line of tests/data/config/{refused,warned}.txt, and inputs that a text file cannot contain.
#include "intake/config_cases.h"

#include <gtest/gtest.h>

#include <set>

#include "intake/config_text.h"
#include "text/yaml_tree.h"

namespace forestall::test {
namespace {

Result<intake::LoadedConfig> parse(const ConfigCase& given) {
  return load_text(given.config, [&](const std::string& path) -> Result<std::string> {
    if (given.manifest && path == "manifest.yaml") return *given.manifest;
    return Error{ENOENT, "open " + path};
  });
}

std::vector<ConfigCase> refused() {
  return read_config_cases(FORESTALL_TEST_DATA "/config/refused.txt");
}
std::vector<ConfigCase> warned() {
  return read_config_cases(FORESTALL_TEST_DATA "/config/warned.txt");
}

std::string test_name(const testing::TestParamInfo<ConfigCase>& info) {
  std::string name;
  for (const char c : info.param.name)
    name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

class RefusedConfig : public testing::TestWithParam<ConfigCase> {};

TEST_P(RefusedConfig, ReportsTheReason) {
  const auto parsed = parse(GetParam());
  ASSERT_FALSE(parsed.ok()) << GetParam().config;
  EXPECT_EQ(parsed.error().text(), GetParam().expected) << GetParam().config;
}

INSTANTIATE_TEST_SUITE_P(Table, RefusedConfig, testing::ValuesIn(refused()), test_name);

class WarnedConfig : public testing::TestWithParam<ConfigCase> {};

TEST_P(WarnedConfig, ReportsTheReason) {
  const auto parsed = parse(GetParam());
  ASSERT_TRUE(parsed.ok()) << parsed.error().text();
  std::string warnings;
  for (const std::string& warning : parsed->warnings) {
    warnings += (warnings.empty() ? "" : "\n") + warning;
  }
  EXPECT_EQ(warnings, GetParam().expected) << GetParam().config;
}

INSTANTIATE_TEST_SUITE_P(Table, WarnedConfig, testing::ValuesIn(warned()), test_name);

// The tables themselves: complete, and each case once.
TEST(ConfigCases, AreThere) {
  EXPECT_GE(refused().size(), 60U);
  EXPECT_GE(warned().size(), 10U);
  for (const auto& cases : {refused(), warned()}) {
    std::set<std::string> names;
    for (const ConfigCase& config_case : cases) {
      EXPECT_TRUE(names.insert(config_case.name).second) << config_case.name;
    }
  }
}

std::string error_of(std::string_view text) {
  const auto parsed = load_text(text, intake::read_text_file);
  return parsed.ok() ? "accepted" : parsed.error().text();
}

TEST(UnreadableConfig, BadUtf8) {
  EXPECT_EQ(error_of("dryRun: true\nmanifest: \xc3\xa9\xff\n"), "config.yaml:2:12: not UTF-8");
}

TEST(UnreadableConfig, Utf16) {
  EXPECT_EQ(error_of(std::string_view("\xff\xfe{\0}\0", 6)), "config.yaml:1:1: not UTF-8");
  EXPECT_EQ(error_of(std::string_view("{\0}\0", 4)), "config.yaml:1:2: control character");
}

TEST(UnreadableConfig, ByteOrderMark) {
  EXPECT_EQ(error_of("\xef\xbb\xbf{}"),
            "config.yaml:1:1: the file begins with a byte order mark; save it as plain UTF-8");
}

// yaml-cpp takes byte 4 for the end of the file and would ignore the rest.
TEST(UnreadableConfig, EndOfTransmission) {
  EXPECT_EQ(error_of("dryRun: true\n\x04 dryRun: false\n"), "config.yaml:2:1: control character");
}

TEST(UnreadableConfig, TabInTheIndentation) {
  EXPECT_EQ(error_of("pods:\n\tenabled: true\n"),
            "config.yaml:2:1: tab in the indentation; YAML indents with spaces only");
  EXPECT_EQ(error_of("pods:\n  \tenabled: true\n"),
            "config.yaml:2:3: tab in the indentation; YAML indents with spaces only");
}

TEST(UnreadableConfig, CarriageReturnAlone) {
  EXPECT_EQ(error_of("dryRun: true\rpods: {}\n"), "config.yaml:1:13: control character");
}

TEST(UnreadableConfig, WindowsLineEndsAreFine) {
  EXPECT_EQ(error_of("dryRun: true\r\npods: {enabled: true}\r\n"), "accepted");
  EXPECT_EQ(error_of("dryRun: true\r\nwatch: 1\r\n"),
            "config.yaml:2:8: 'watch' must be a list, found '1'");
}

TEST(UnreadableConfig, TooLarge) {
  std::string text = "dryRun: true\n#";
  text.append(text::kYamlBytesMax - text.size(), 'x');
  EXPECT_EQ(error_of(text), "accepted");
  text += 'x';
  EXPECT_EQ(error_of(text), "config.yaml:1:1: the file is larger than 1 MiB");
}

TEST(UnreadableConfig, TooDeep) {
  const auto nested = [](std::size_t depth) {
    return "watch: " + std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_EQ(error_of(nested(text::kYamlDepthMax)), "config.yaml:1:39: nested more than 32 deep");
  // Much deeper than yaml-cpp itself would follow.
  EXPECT_EQ(error_of(nested(1000)), "config.yaml:1:39: nested more than 32 deep");
}

TEST(UnreadableConfig, TooManyValues) {
  std::string text = "watch: [";
  for (std::size_t i = 0; i < text::kYamlNodesMax; ++i) text += "1,";
  EXPECT_EQ(error_of(text + "]"), "config.yaml:1:200007: more than 100000 values");
}

TEST(UnreadableConfig, ManyErrorsAreCounted) {
  std::string text;
  for (int i = 0; i < 25; ++i) text += "x" + std::to_string(i) + ": 1\n";
  const std::string errors = error_of(text);
  EXPECT_EQ(std::count(errors.begin(), errors.end(), '\n'), 20);
  EXPECT_TRUE(errors.ends_with("\nconfig.yaml: and 5 more")) << errors;
}

TEST(UnreadableConfig, LongValuesAreCut) {
  const std::string errors = error_of("dryRun: " + std::string(79, 'a') + "é" + "bbb");
  EXPECT_EQ(errors, "config.yaml:1:9: 'dryRun' must be true or false, found '" +
                        std::string(79, 'a') + "…'");
}

TEST(UnreadableConfig, ManyRules) {
  std::string watch = "watch:\n", workloads = "workloads:\n";
  for (int i = 0; i < 257; ++i) {
    watch += "  - {cgroup: /a" + std::to_string(i) + ", available: 5%}\n";
  }
  for (int i = 0; i < 4097; ++i) workloads += "  - {cgroup: /a" + std::to_string(i) + "}\n";
  EXPECT_EQ(error_of(watch),
            "config.yaml:2:3: 'watch' has more than 256 rules; combine them with wildcards");
  EXPECT_EQ(error_of(workloads),
            "config.yaml:2:3: 'workloads' has more than 4096 rules; combine them with "
            "wildcards");
}

}  // namespace
}  // namespace forestall::test
