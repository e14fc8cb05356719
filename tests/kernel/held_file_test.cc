// SPDX-License-Identifier: Apache-2.0
#include "kernel/held_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "support/temp_tree.h"

namespace forestall::kernel {
namespace {

TEST(HeldFile, ReadsFilesOfAnySizeAnew) {
  const test::TempTree files{{"f", "one\n"}};
  const auto path = files / "f";
  const auto file = HeldFile::open(AT_FDCWD, path.c_str(), "f");
  ASSERT_TRUE(file) << file.error().text();
  std::string buffer;
  for (const std::size_t size : {0u, 1u, 8191u, 8192u, 8193u, 100'000u, 3u}) {
    const std::string text(size, 'x');
    files.write("f", text);
    const auto read = file->read(buffer);
    ASSERT_TRUE(read) << read.error().text();
    EXPECT_EQ(*read, text);
  }
}

TEST(HeldFile, MoreThanAMebibyteIsNotTheFileWeThinkItIs) {
  const test::TempTree files{{"f", std::string((1 << 20) + 1, 'x')}};
  const auto path = files / "f";
  const auto file = HeldFile::open(AT_FDCWD, path.c_str(), "f");
  ASSERT_TRUE(file);
  std::string buffer;
  EXPECT_EQ(file->read(buffer).error().code, EFBIG);
}

TEST(HeldFile, ErrorsCarryTheNameGiven) {
  const auto file = HeldFile::open(AT_FDCWD, "/nowhere/at/all", "the file");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().text(), "open the file: No such file or directory");
}

}  // namespace
}  // namespace forestall::kernel
