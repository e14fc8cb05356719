// SPDX-License-Identifier: Apache-2.0
#include "exports/log_line.h"

#include <gtest/gtest.h>

namespace forestall::exports {
namespace {

TEST(LogLine, PlainValuesStandAsTheyAre) {
  const LogLine line = LogLine("decision").field("victim", "batch-7").field("count", 3);
  EXPECT_EQ(line.text(), "event=decision victim=batch-7 count=3");
}

TEST(LogLine, AmountsTimesAndTruthsAreNumbersAndWords) {
  const LogLine line = LogLine("x")
                           .field("available", mib(1))
                           .field("took_us", Duration(1'250))
                           .field("dry_run", false);
  EXPECT_EQ(line.text(), "event=x available=1048576 took_us=1.2 dry_run=no");
}

struct Quoting {
  const char* value;
  const char* written;
};

TEST(LogLine, QuotesAndEscapesSpecialCharacters) {
  const Quoting kCases[] = {
      {"", "\"\""},
      {"two words", "\"two words\""},
      {"a=b", "\"a=b\""},
      {"run \"hi\"", "\"run \\\"hi\\\"\""},
      {"back\\slash", "\"back\\\\slash\""},
      {"line\nevent=forged", "\"line\\nevent=forged\""},
      {"\x1b[2Jcleared", "\"\\x1b[2Jcleared\""},
      {"tab\there", "\"tab\\x09here\""},
      {"caf\xc3\xa9", "\"caf\xc3\xa9\""},
      {"c1\xc2\x9b"
       "2J",
       "\"c1\\xc2\\x9b2J\""},
      {"raw\x9b"
       "2J",
       "\"raw\\x9b2J\""},
      {"turn\xe2\x80\xae"
       "ed",
       "\"turn\\xe2\\x80\\xaeed\""},
  };
  for (const Quoting& each : kCases) {
    EXPECT_EQ(LogLine("x").field("v", each.value).text(), std::string("event=x v=") + each.written);
  }
}

TEST(LogLine, JsonHasNumbersTruthsAndEscapedNames) {
  const LogLine line = LogLine("outcome")
                           .field("victim", "a\"b\\c\n\x1b[2J")
                           .field("freed", mib(1))
                           .field("exit_us", Duration(1'250))
                           .field("dry_run", false)
                           .field("failure", "one")
                           .field("failure", "two");
  EXPECT_EQ(line.json_members(),
            R"("event":"outcome","victim":"a\"b\\\\c\\n\\x1b[2J","freed":1048576,"exit_us":1.2,)"
            R"("dry_run":false,"failure":"one","failure_2":"two")");
}

TEST(LogLine, PlainTextHasTheProblemFirst) {
  EXPECT_EQ(LogLine("reloaded").plain(), "reloaded");
  EXPECT_EQ(LogLine("reload-refused")
                .field("in_force", "the old one")
                .field("error", "c.yaml:1:1: unknown\nkey")
                .plain(),
            "reload refused: c.yaml:1:1: unknown\\nkey; in force \"the old one\"");
  EXPECT_EQ(
      LogLine("resumed").field("cause", "SIGCONT").field("away_us", Duration(3'200'000)).plain(),
      "resumed: cause SIGCONT, away 3.2 ms");
  EXPECT_EQ(LogLine("start").field("version", "1").sentence("started").plain(), "started");
}

}  // namespace
}  // namespace forestall::exports
