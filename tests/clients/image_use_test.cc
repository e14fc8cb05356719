// SPDX-License-Identifier: Apache-2.0
#include "clients/image_use.h"

#include <gtest/gtest.h>

namespace forestall::clients {
namespace {

const std::string kDigits(64, 'a');
const std::string kOther(64, 'b');

// An image with an ID, a tag, and a digest that is not the ID (the manifest's, not the config's).
StoredImage image() {
  return {"sha256:" + kDigits, {"reg.io/app:1", "reg.io/app@sha256:" + kOther}, {10}, false};
}

bool in_use(const std::string& reference, const StoredImage& of = image()) {
  ImageReferences references;
  references.add(reference);
  return references.covers(of);
}

TEST(ImageUse, ByEveryNameTheImageHas) {
  EXPECT_TRUE(in_use("sha256:" + kDigits));
  EXPECT_TRUE(in_use("reg.io/app:1"));
  EXPECT_TRUE(in_use("reg.io/app@sha256:" + kOther));
}

TEST(ImageUse, IdWithAndWithoutItsAlgorithm) {
  StoredImage bare = image();
  bare.id = kDigits;
  EXPECT_TRUE(in_use(kDigits));
  EXPECT_TRUE(in_use(kDigits, bare));
  EXPECT_TRUE(in_use("sha256:" + kDigits, bare));
}

TEST(ImageUse, DigestUnderAnotherName) {
  EXPECT_TRUE(in_use("mirror.io/app@sha256:" + kOther));
  EXPECT_TRUE(in_use("reg.io:5000/app:1@sha256:" + kOther));
  EXPECT_TRUE(in_use("sha256:" + kOther));
}

TEST(ImageUse, OthersDoNotCount) {
  EXPECT_FALSE(in_use(""));
  EXPECT_FALSE(in_use("reg.io/app"));
  EXPECT_FALSE(in_use("reg.io/app:2"));
  EXPECT_FALSE(in_use("sha256:" + std::string(64, 'c')));
  EXPECT_FALSE(in_use(kDigits.substr(1)));
}

TEST(ImageUse, NoNameIsNotAMatch) {
  ImageReferences references;
  references.add("");
  EXPECT_FALSE(references.covers({"", {""}, {1}, false}));
}

TEST(ImageOrder, LargestFirstThenById) {
  const StoredImage small{"a", {}, {1}, false};
  const StoredImage large{"c", {}, {2}, false};
  const StoredImage equal{"b", {}, {2}, false};
  EXPECT_TRUE(goes_before(large, small));
  EXPECT_FALSE(goes_before(small, large));
  EXPECT_TRUE(goes_before(equal, large));
  EXPECT_FALSE(goes_before(large, large));
}

}  // namespace
}  // namespace forestall::clients
