// SPDX-License-Identifier: Apache-2.0
#include "kernel/btf_image.h"

#include <bpf/btf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "kernel/kernel_types.h"

namespace forestall::kernel {
namespace {

struct FreeImageTypes {
  void operator()(btf* types) const { btf__free(types); }
};
using ParsedTypes = std::unique_ptr<btf, FreeImageTypes>;

std::vector<std::byte> bytes_of_struct(const char* name) {
  const ParsedTypes types(btf__new_empty());
  const int integer = btf__add_int(types.get(), "int", 4, BTF_INT_SIGNED);
  btf__add_struct(types.get(), name, 4);
  btf__add_field(types.get(), "member", integer, 0, 0);
  __u32 size = 0;
  const auto* bytes = static_cast<const std::byte*>(btf__raw_data(types.get(), &size));
  return {bytes, bytes + size};
}

TEST(BtfImageTest, HasTheTypesOfTheRunningKernelAsLibbpfParsesThem) {
  const ParsedTypes parsed(btf__load_vmlinux_btf());
  ASSERT_TRUE(parsed);
  const BtfImage image = BtfImage::of_kernel();
  ASSERT_TRUE(image.valid());
  ASSERT_EQ(image.type_count(), btf__type_cnt(parsed.get()));
  for (std::uint32_t id = 1; id < image.type_count(); ++id) {
    const btf_type& expected = *btf__type_by_id(parsed.get(), id);
    ASSERT_EQ(std::memcmp(image.type(id), &expected, btf_bytes_of(expected)), 0) << id;
    ASSERT_STREQ(image.name(expected.name_off),
                 btf__name_by_offset(parsed.get(), expected.name_off));
  }
}

TEST(BtfImageTest, KernelTypesHasEachFunctionAtItsFirstId) {
  const ParsedTypes parsed(btf__load_vmlinux_btf());
  const KernelTypes types;
  for (const char* name : {"out_of_memory", "bpf_iter_task", "page_counter_charge", "no_such"}) {
    const int id = btf__find_by_name_kind(parsed.get(), name, BTF_KIND_FUNC);
    EXPECT_EQ(types.function_id(name), id > 0 ? static_cast<std::uint32_t>(id) : 0U) << name;
  }
}

TEST(BtfImageTest, FindsTypesByIdAndNamesByOffset) {
  const BtfImage image = BtfImage::copy_of(bytes_of_struct("page"));
  ASSERT_EQ(image.type_count(), 3U);
  EXPECT_EQ(image.type(0), nullptr);
  EXPECT_EQ(image.type(3), nullptr);
  EXPECT_STREQ(image.name(image.type(2)->name_off), "page");
  EXPECT_STREQ(image.name(1'000'000), "");
}

TEST(BtfImageTest, APartOfAFileHasNoTypes) {
  const std::vector<std::byte> whole = bytes_of_struct("page");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(BtfImage::copy_of(std::span(whole).first(size)).valid()) << size;
  }
}

TEST(BtfImageTest, AnUnsupportedKindLeavesNoTypes) {
  std::vector<std::byte> bytes = bytes_of_struct("page");
  auto* first = reinterpret_cast<btf_type*>(bytes.data() + sizeof(btf_header));
  first->info = 31U << 24;  // the largest kind
  EXPECT_FALSE(BtfImage::copy_of(bytes).valid());
}

}  // namespace
}  // namespace forestall::kernel
