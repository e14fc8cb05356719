// SPDX-License-Identifier: Apache-2.0
#include "recording/byte_ring.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "support/allocation_count.h"

namespace forestall::recording {
namespace {

TEST(ByteRing, ReturnsItsContentsInOrderUntilItIsFull) {
  auto ring = std::move(ByteRing::create(1).value());
  EXPECT_EQ(ring->capacity(), std::size_t{64} << 10);
  std::string out;
  EXPECT_FALSE(ring->peek());
  std::size_t given = 0;
  while (ring->give(std::string(1000, static_cast<char>('a' + given % 26)),
                    {static_cast<std::int64_t>(given), 0, 0, 0})) {
    ++given;
  }
  EXPECT_GT(given, 60U);
  EXPECT_FALSE(ring->give(std::string(1000, 'x'), {}));
  for (std::size_t i = 0; i < given; ++i) {
    const auto entry = ring->peek();
    ASSERT_TRUE(entry);
    EXPECT_EQ(entry->label.at_ns, static_cast<std::int64_t>(i));
    EXPECT_EQ(entry->size, 1000U);
    ring->take(out);
    EXPECT_EQ(out, std::string(1000, static_cast<char>('a' + i % 26)));
  }
  EXPECT_TRUE(ring->empty());
}

TEST(ByteRing, RefusesEntriesThatCanNeverFit) {
  auto ring = std::move(ByteRing::create(1).value());
  EXPECT_FALSE(ring->give(std::string(ring->capacity(), 'x'), {}));
  EXPECT_TRUE(ring->empty());
}

// The functions that the loop calls allocate no memory, with or without room.
TEST(ByteRing, GivingTakesNoMemory) {
  auto ring = std::move(ByteRing::create(1).value());
  const std::string entry(1000, 'x');
  const std::uint64_t before = test::allocation_count();
  for (int i = 0; i < 1000; ++i) (void)ring->give(entry, {});
  EXPECT_EQ(test::allocation_count(), before);
  EXPECT_FALSE(ring->give(entry, {}));
}

TEST(ByteRing, KeepsOrderAndBytesBetweenTwoThreads) {
  constexpr int kEntries = 200'000;
  auto ring = std::move(ByteRing::create(1).value());
  std::thread giver([&] {
    std::mt19937 random(1);
    for (int i = 0; i < kEntries; ++i) {
      const std::string entry(random() % 3000, static_cast<char>(i));
      while (!ring->give(entry, {i, 0, 0, 0})) std::this_thread::yield();
    }
  });
  std::mt19937 random(1);
  std::string out;
  for (int i = 0; i < kEntries; ++i) {
    auto entry = ring->peek();
    for (; !entry; entry = ring->peek()) std::this_thread::yield();
    ring->take(out);
    ASSERT_EQ(entry->label.at_ns, i);
    ASSERT_EQ(out, std::string(random() % 3000, static_cast<char>(i)));
  }
  giver.join();
}

}  // namespace
}  // namespace forestall::recording
