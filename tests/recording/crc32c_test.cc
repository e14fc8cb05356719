// SPDX-License-Identifier: Apache-2.0
#include "recording/crc32c.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace forestall::recording {
namespace {

// RFC 3720, appendix B.4.
TEST(Crc32c, AnswersTheExamplesOfTheStandard) {
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
  std::string rising;
  for (int i = 0; i < 32; ++i) rising.push_back(static_cast<char>(i));
  EXPECT_EQ(crc32c(rising), 0x46dd794eU);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(crc32c(""), 0U);
}

TEST(Crc32c, IsTheSameByInstructionAndByTableInAnyPieces) {
  std::mt19937 random(1);
  std::string bytes(1000, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  for (std::size_t size = 0; size < 100; ++size) {
    const std::string_view some = std::string_view(bytes).substr(size % 8, size);
    EXPECT_EQ(crc32c(some), crc32c_by_table(some));
  }
  const std::uint32_t whole = crc32c_by_table(bytes);
  for (std::size_t cut = 0; cut <= bytes.size(); cut += 13) {
    const std::string_view view = bytes;
    EXPECT_EQ(crc32c(view.substr(cut), crc32c(view.substr(0, cut))), whole);
  }
}

}  // namespace
}  // namespace forestall::recording
