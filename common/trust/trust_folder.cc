#include "common/trust/trust_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "common/base/files.h"

namespace forebay {
namespace {

constexpr std::string_view kAuthorities = "ca.pem";
constexpr std::string_view kAuthorityKey = "ca.key";
constexpr std::size_t kLongestKeyFile = 4096;

Error OfErrno(const std::string& path) {
  const int error = errno;
  const Code code = error == EACCES || error == EPERM || error == ELOOP ? Code::kDenied
                    : error == ENOENT                                   ? Code::kNotFound
                                                                        : Code::kInternal;
  return Error{code, "cannot read " + path + ": " + std::generic_category().message(error)};
}

/// A file that nobody else may read. Root, whom nothing is hidden from, uses a service's, too.
Result<Secret> ReadPrivateFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return Fail(OfErrno(path));
  struct stat info{};
  std::string bytes(kLongestKeyFile, '\0');
  const bool looked = fstat(fd, &info) == 0;
  const ssize_t size = looked ? read(fd, bytes.data(), bytes.size()) : -1;
  const Error failed = OfErrno(path);
  close(fd);
  bytes.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  Secret text(std::move(bytes));
  if (size < 0) return Fail(failed);
  const bool ours = info.st_uid == geteuid() || geteuid() == 0;
  if (!ours || (info.st_mode & 0077) != 0) {
    return Fail(Code::kDenied,
                path + " must belong to this user and be readable by nobody else: chmod 600 it");
  }
  return text;
}

}  // namespace

Result<bool> TrustFolder::Exists() const {
  if (path_.empty()) return false;
  struct stat info{};
  if (stat(At(kAuthorities).c_str(), &info) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  return Fail(
      OfErrno(At(kAuthorities))
          .Within("whether this machine belongs to a cluster cannot be seen (--trust-dir)"));
}

Result<std::vector<Certificate>> TrustFolder::LoadAuthorities() const {
  const std::string file = At(kAuthorities);
  Result<std::string> text = ReadWholeFile(file);
  if (!text) return Fail(text.error());
  Result<std::vector<Certificate>> all = Certificate::AllFromPem(*text);
  if (!all) return Fail(all.error().Within(file));
  return all;
}

Result<PrivateKey> TrustFolder::LoadKey(const std::string& file) const {
  Result<Secret> text = ReadPrivateFile(file);
  if (!text) return Fail(text.error());
  Result<PrivateKey> key = PrivateKey::FromPem(*text);
  if (!key) return Fail(key.error().Within(file));
  return key;
}

Result<MemberProof> TrustFolder::Load(proto::Role role) const {
  Result<std::vector<Certificate>> authorities = LoadAuthorities();
  if (!authorities) return Fail(authorities.error());
  const std::string word(RoleWord(role));
  const std::string file = At(word + ".pem");
  Result<std::string> text = ReadWholeFile(file);
  if (!text && text.error().code == Code::kNotFound) {
    return Fail(Code::kInvalid, "this machine belongs to a cluster, and has no certificate of a " +
                                    word + " (" + file +
                                    "): get one with 'forebay join HOST:PORT --token T' and a "
                                    "token for that role");
  }
  if (!text) return Fail(text.error());
  Result<Certificate> certificate = Certificate::FromPem(*text);
  if (!certificate) return Fail(certificate.error().Within(file));
  Result<PrivateKey> key = LoadKey(At(word + ".key"));
  if (!key) return Fail(key.error());
  if (!certificate->Fits(*key))
    return Fail(Code::kInvalid, file + " does not belong to its key: join again");
  Result<Identity> self = certificate->Member();
  if (!self) return Fail(self.error().Within(file));
  if (self->role != role)
    return Fail(Code::kInvalid, file + " is the certificate of " + NameOf(*self) + ": join again");
  return MemberProof{.authorities = std::move(*authorities),
                     .certificate = *certificate,
                     .key = *key,
                     .self = std::move(*self)};
}

Status TrustFolder::Save(const MemberProof& member) const {
  Status made = MakePrivateFolder(path_);
  if (!made) return made;
  const std::string word(RoleWord(member.self.role));
  std::string authorities;
  for (const Certificate& authority : member.authorities) authorities += authority.ToPem();
  // Under umask 077, as all files of ours.
  Status written = WriteFileAtomically(At(word + ".key"), member.key.ToPem().Reveal());
  if (written) written = WriteFileAtomically(At(word + ".pem"), member.certificate.ToPem());
  if (written) written = WriteFileAtomically(At(kAuthorities), authorities);
  return written;
}

Result<Authority> TrustFolder::LoadAuthority() const {
  Result<std::vector<Certificate>> authorities = LoadAuthorities();
  if (!authorities) return Fail(authorities.error());
  Result<PrivateKey> key = LoadKey(At(kAuthorityKey));
  if (!key) return Fail(key.error());
  for (Certificate& certificate : *authorities) {
    if (certificate.Fits(*key)) return Authority::Of(std::move(certificate), std::move(*key));
  }
  return Fail(Code::kInvalid,
              At(kAuthorityKey) + " is the key of none of the authorities in " + At(kAuthorities));
}

Status TrustFolder::SaveAuthority(const Authority& authority) const {
  Status made = MakePrivateFolder(path_);
  if (!made) return made;
  Status written = WriteFileAtomically(At(kAuthorityKey), authority.key().ToPem().Reveal());
  if (written) written = WriteFileAtomically(At(kAuthorities), authority.certificate().ToPem());
  return written;
}

}  // namespace forebay
