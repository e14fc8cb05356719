// SPDX-License-Identifier: Apache-2.0
#include "kernel/relocation_types.h"

#include <bpf/btf.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace forestall::kernel {
namespace {

struct FreeTypes {
  void operator()(btf* types) const { btf__free(types); }
};
using Types = std::unique_ptr<btf, FreeTypes>;

// struct page { struct list list; page* next; counter_t count; };  struct other { int value; }
btf* made_up_kernel() {
  btf* types = btf__new_empty();
  const int integer = btf__add_int(types, "int", 4, BTF_INT_SIGNED);
  btf__add_struct(types, "other", 4);
  btf__add_field(types, "value", integer, 0, 0);
  const int list = btf__add_struct(types, "list", 8);
  const int pointer = btf__add_ptr(types, list + 2);  // to page, below
  EXPECT_EQ(btf__add_struct(types, "page", 24), list + 2);
  btf__add_field(types, "list", list, 0, 0);
  btf__add_field(types, "next", pointer, 64, 0);
  btf__add_field(types, "count", list + 3, 128, 0);
  EXPECT_EQ(btf__add_typedef(types, "counter_t", list + 4), list + 3);
  EXPECT_EQ(btf__add_array(types, integer, integer, 2), list + 4);
  return types;
}

// What libbpf reads from the file.
Types read_back(const RelocationTypes& types) {
  return Types(btf__parse(types.path(), nullptr));
}

Types object_with_struct(const char* name) {
  Types object(btf__new_empty());
  btf__add_struct(object.get(), name, 0);
  return object;
}

TEST(RelocationTypesTest, HasANamedTypeWithItsMembersTypesAndNoOther) {
  const KernelTypes kernel(made_up_kernel());
  const RelocationTypes types(kernel, object_with_struct("page").get());
  ASSERT_NE(types.path(), nullptr);
  const Types found = read_back(types);
  ASSERT_TRUE(found);
  const int page = btf__find_by_name_kind(found.get(), "page", BTF_KIND_STRUCT);
  ASSERT_GT(page, 0);
  const btf_type* type = btf__type_by_id(found.get(), static_cast<__u32>(page));
  ASSERT_EQ(btf_vlen(type), 3);
  const btf_member* members = btf_members(type);
  EXPECT_EQ(members[0].type,
            static_cast<__u32>(btf__find_by_name_kind(found.get(), "list", BTF_KIND_STRUCT)));
  const btf_type* next = btf__type_by_id(found.get(), members[1].type);
  EXPECT_TRUE(btf_is_ptr(next));
  EXPECT_EQ(next->type, 0U) << "a pointer leads to void";
  EXPECT_EQ(members[2].type,
            static_cast<__u32>(btf__find_by_name_kind(found.get(), "counter_t", BTF_KIND_TYPEDEF)));
  EXPECT_EQ(btf__resolve_size(found.get(), members[2].type), 8) << "int[2] behind the typedef";
  EXPECT_EQ(btf__find_by_name_kind(found.get(), "other", BTF_KIND_STRUCT), -ENOENT);
}

TEST(RelocationTypesTest, FindsTheTypeOfAFlavor) {
  const KernelTypes kernel(made_up_kernel());
  const RelocationTypes types(kernel, object_with_struct("other___before_6_8").get());
  EXPECT_GT(btf__find_by_name_kind(read_back(types).get(), "other", BTF_KIND_STRUCT), 0);
}

TEST(RelocationTypesTest, FlavorsAreSuffixesAfterThreeUnderscores) {
  EXPECT_EQ(without_flavor("task_struct___old"), "task_struct");
  EXPECT_EQ(without_flavor("a___b___c"), "a___b");
  EXPECT_EQ(without_flavor("plain"), "plain");
  EXPECT_EQ(without_flavor("___x"), "___x");
  EXPECT_EQ(without_flavor("four____x"), "four____x");
  EXPECT_EQ(without_flavor(""), "");
}

TEST(RelocationTypesTest, WithoutTypesOfTheKernelThereIsNoFile) {
  const KernelTypes kernel(nullptr);
  EXPECT_EQ(RelocationTypes(kernel, object_with_struct("page").get()).path(), nullptr);
}

TEST(RelocationTypesTest, WithoutTypesOfTheObjectThereIsNoFile) {
  const KernelTypes kernel(made_up_kernel());
  EXPECT_EQ(RelocationTypes(kernel, static_cast<const btf*>(nullptr)).path(), nullptr);
  const auto no_object = [](std::size_t* size) -> const void* {
    *size = 13;
    return "not an object";
  };
  EXPECT_EQ(RelocationTypes(kernel, +no_object).path(), nullptr);
}

}  // namespace
}  // namespace forestall::kernel
