// SPDX-License-Identifier: Apache-2.0
#include "tables/table.h"

#include <gtest/gtest.h>

namespace forestall::tables {
namespace {

TEST(Human, UsesTheLargestUnitThatLeavesAWholeNumber) {
  EXPECT_EQ(human(Bytes{0}), "0 B");
  EXPECT_EQ(human(Bytes{1023}), "1023 B");
  EXPECT_EQ(human(kib(1)), "1.0 KiB");
  EXPECT_EQ(human(mib(1536)), "1.5 GiB");
  EXPECT_EQ(human(Bytes{-mib(3).count}), "-3.0 MiB");
  EXPECT_EQ(human(Bytes{INT64_MAX}), "8192.0 PiB");
}

TEST(Table, AlignsColumnsAndLeavesNoTrailingBlanks) {
  Table table({"name", "size", ""});
  table.add({"a", "1000", ""});
  table.add({"longer", "1", "x"});
  EXPECT_EQ(table.text(), "  name    size\n  a       1000\n  longer  1     x\n");
}

TEST(Table, ATerminalExecutesNoCell) {
  Table table({"name"});
  table.add(
      {"\x1b]0;owned\x07\xc2\x9b"
       "2J\nforged"});
  EXPECT_EQ(table.text(), "  name\n  ?]0;owned??2J?forged\n");
}

}  // namespace
}  // namespace forestall::tables
