// SPDX-License-Identifier: Apache-2.0
#include "wire/grpc_reply.h"

#include <gmock/gmock.h>

#include <cerrno>
#include <vector>

namespace forestall::wire {
namespace {

using std::string_literals::operator""s;
using testing::HasSubstr;

struct Header {
  std::string name, value;
};

// The response made of these headers and this body, which arrives in pieces of `piece` bytes.
GrpcReply reply_of(const std::vector<Header>& headers, std::string_view body,
                   std::size_t piece = 1000, std::uint32_t error_code = 0,
                   std::size_t limit = 100) {
  GrpcReplyReader reader(limit);
  for (std::size_t i = 0; i < body.size(); i += piece) {
    if (!reader.data(body.substr(i, piece))) break;
  }
  for (const auto& each : headers) reader.header(each.name, each.value);
  return std::move(reader).finish(error_code);
}

const std::vector<Header> kOk{{":status", "200"}, {"grpc-status", "0"}};

TEST(GrpcFrame, HasTheUncompressedFlagAndAFourByteLength) {
  EXPECT_EQ(grpc_frame(""), "\0\0\0\0\0"s);
  EXPECT_EQ(grpc_frame("abc"), "\0\0\0\0\3abc"s);
  EXPECT_EQ(grpc_frame(std::string(0x10203, 'x')).substr(0, 5), "\0\0\1\2\3"s);
}

TEST(GrpcReply, BodyInAnyPieces) {
  const std::string frame = grpc_frame("hello, world");
  for (std::size_t piece = 1; piece <= frame.size(); ++piece) {
    const GrpcReply reply = reply_of(kOk, frame, piece);
    EXPECT_TRUE(reply.ok()) << piece << ": " << reply.message;
    EXPECT_EQ(reply.body, "hello, world") << piece;
  }
}

TEST(GrpcReply, EmptyMessageIsAnAnswerAndNoMessageIsNot) {
  EXPECT_TRUE(reply_of(kOk, grpc_frame("")).ok());
  EXPECT_EQ(reply_of(kOk, "").code, EPROTO);
  EXPECT_EQ(reply_of(kOk, "\0\0\0"s).code, EPROTO);
  EXPECT_EQ(reply_of(kOk, "\0\0\0\0\5abcd"s).code, EPROTO);
}

TEST(GrpcReply, FailureCarriesStatusAndDecodedText) {
  const GrpcReply reply = reply_of(
      {{":status", "200"}, {"grpc-status", "5"}, {"grpc-message", "no %22x%22: 50%25 %zz %2"}}, "");
  EXPECT_EQ(reply.status, GrpcStatus::not_found);
  EXPECT_EQ(reply.code, 0);
  EXPECT_EQ(reply.message, "no \"x\": 50% %zz %2");
}

TEST(GrpcReply, UnknownStatusIsAFailure) {
  for (const std::string status : {"17", "-1", "", "x", "00x", "18446744073709551616"}) {
    EXPECT_EQ(reply_of({{"grpc-status", status}}, grpc_frame("")).status, GrpcStatus::unknown)
        << status;
  }
}

TEST(GrpcReply, NoStatusIsNoGrpc) {
  const GrpcReply reply = reply_of({{":status", "404"}}, "not found");
  EXPECT_FALSE(reply.ok());
  EXPECT_EQ(reply.code, EPROTO);
}

TEST(GrpcReply, ResetWithoutStatusKeepsTheHttpStatus) {
  EXPECT_EQ(reply_of({}, "", 1, 7).status, GrpcStatus::unavailable);
  EXPECT_EQ(reply_of({}, "", 1, 8).status, GrpcStatus::cancelled);
  EXPECT_EQ(reply_of({}, "", 1, 11).status, GrpcStatus::resource_exhausted);
  EXPECT_EQ(reply_of({}, "", 1, 2).status, GrpcStatus::internal);
}

TEST(GrpcReply, StatusCountsEvenIfTheStreamWasResetAfterwards) {
  // grpc-go does so if the client has not ended its side yet.
  EXPECT_EQ(reply_of({{"grpc-status", "12"}}, "", 1, 0x8).status, GrpcStatus::unimplemented);
}

TEST(GrpcReply, AnswerBeyondTheLimitIsRefusedAtItsLength) {
  GrpcReplyReader reader(100);
  EXPECT_TRUE(reader.data("\0\0\0\0"s));
  EXPECT_FALSE(reader.data("\x65"));
  EXPECT_FALSE(reader.data("more"));
  const GrpcReply reply = std::move(reader).finish(0);
  EXPECT_EQ(reply.code, EMSGSIZE);
  EXPECT_THAT(reply.message, HasSubstr("101 bytes"));
  EXPECT_TRUE(reply_of(kOk, grpc_frame(std::string(100, 'x'))).ok());
}

TEST(GrpcReply, CompressedOrSecondMessageIsRefused) {
  EXPECT_EQ(reply_of(kOk, "\1\0\0\0\1a"s).code, EPROTO);
  EXPECT_EQ(reply_of(kOk, grpc_frame("a") + grpc_frame("b")).code, EPROTO);
  EXPECT_EQ(reply_of(kOk, grpc_frame("a") + "b", 1).code, EPROTO);
}

}  // namespace
}  // namespace forestall::wire
