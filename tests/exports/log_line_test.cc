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
      {"say \"hi\"", "\"say \\\"hi\\\"\""},
      {"back\\slash", "\"back\\\\slash\""},
      {"line\nevent=forged", "\"line\\x0aevent=forged\""},
      {"\x1b[2Jcleared", "\"\\x1b[2Jcleared\""},
      {"tab\there", "\"tab\\x09here\""},
      {"caf\xc3\xa9", "\"caf\xc3\xa9\""},
  };
  for (const Quoting& each : kCases) {
    EXPECT_EQ(LogLine("x").field("v", each.value).text(), std::string("event=x v=") + each.written);
  }
}

}  // namespace
}  // namespace forestall::exports
