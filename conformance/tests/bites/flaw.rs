//! The bugs that the suite has to find, each of a class that real systems had.

/// One bug of a [`Broken`](crate::broken::Broken) provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// No bug. It shows that a case fails because of the bug and not of the wrapper.
    None,

    // The life cycle.
    /// Calls are answered after a `shutdown`, as if it had closed nothing.
    ClosedStillAnswers,
    /// What is stored lives as long as the handle that stored it.
    LostOnReopen,
    NamespacesAreShared,
    SecondShutdownFails,
    /// The check stores a probe.
    HealthWrites,
    /// A fixed number of connections serves all calls in the order of their arrival.
    LightCallsWaitForHeavyOnes,
    /// Only the handle that is made read-only remembers it, and the storage does not.
    ReadOnlyForItsHandleAlone,
    /// The answer comes before the storage has it.
    ReadOnlyComesLate,
    /// A second `init` fails, as CREATE TABLE without IF NOT EXISTS does.
    InitExpectsNothing,
    /// A schema of a later program is opened as if it were one's own.
    NewerSchemaIsTaken,
    /// A new ledger has a backfill that no slice completes.
    BackfillNeverEnds,

    // Values.
    /// A store gives ids of another version than 7, and each is less than the one before.
    IdsAreNotOfVersion7,
    /// Like a column of a type without trailing spaces.
    SpacesAreTrimmed,
    /// Triggers are parsed and written again, without duplicate keys and with other numbers.
    TriggersAreWrittenAnew,
    /// The status that was added last is not known to the engine.
    ObservedIsCompleted,
    /// An update at the highest revision changes nothing and reports success.
    LastRevisionStays,
    /// Keys are compared by a collation without case.
    KeysAreFolded,
    ContentsAreTrimmed,

    // Writing.
    /// A batch is one store after the other, without a transaction.
    BatchIsPartlyApplied,
    KeyIgnored,
    /// A store without a key is taken for a repetition of an equal one.
    EqualStoresAreOne,
    KeyReturnsFirstWhateverTheTrigger,
    UpdateOfUnknownSucceeds,
    UpdateMovesCreatedAt,
    /// A merge patch is the new metadata.
    MergeReplaces,
    /// A member that is `null` in a merge patch stays.
    MergeKeepsWhatIsNull,
    /// A context that is cleared is the JSON `null` afterwards.
    ClearKeepsNull,
    EmptyContextIsAbsent,
    IfRevisionIgnored,
    RestoreMakesNewIds,
    RestoreForgetsKeys,
    /// Like INSERT ... ON CONFLICT DO NOTHING, whatever exists.
    RestoreCountsConflictsAsEqual,
    /// Memories after the first conflict are neither restored nor reported.
    RestoreEndsAtAConflict,
    /// A later version is refused as a different one.
    NewerIsAConflict,
    /// A later version gets the revision after the existing one, as an update does.
    NewerCountsByItself,
    DroppedBatchIsHalf,
    /// An update writes the context in a second step.
    DroppedUpdateIsHalf,
    /// A restore writes the contexts in a second step.
    DroppedRestoreIsHalf,
    /// A dropped call never releases what it had acquired.
    DroppedReadKeepsItsConnection,
    DroppedInitKeepsItsLock,
    BatchHasACap,
    /// An update reads, changes and writes back, without comparing the revision.
    UpdateLosesRaces,
    UpdateOfMetadataAloneIsDropped,
    /// Whole numbers in the metadata lose precision beyond 2^53.
    NumbersAreFloats,
    TimesAreSeconds,
    /// A full-width percent sign is stored as an ordinary one.
    SpacesAreFolded,
    /// All three boundaries are the same separator in a key.
    BoundariesAreOne,
    /// The column of a space has 255 bytes.
    LongSpacesAreRefused,
    /// Reads go to a replica that does not have the last write yet.
    ReadsLagBehind,

    // Reading.
    ExactIgnoresCase,
    /// A regex must match the whole id.
    RegexIsAnchored,
    /// Patterns over 255 bytes don't fit into the engine's column or statement.
    LongPatternsAreRefused,
    /// Open work is searched among all completed work.
    OpenWorkIsSearched,
    /// A row that can't be read takes the place of one that can.
    DamageSpendsTheLimit,
    /// A row that can't be read is an error of the whole query.
    DamageFailsTheQuery,
    DamageIsNotFound,
    /// A path is a prefix, so that it finds siblings that start alike.
    UnderIsRawPrefix,
    /// `%` and `_` of a prefix are wildcards.
    PrefixIsLike,
    PrefixIgnoresCase,
    GlobIsRegex,
    WithinIgnored,
    BeforeIsInclusive,
    /// The limit counts rows before the filter.
    LimitBeforeFilter,
    NumbersCompareAsText,
    /// A limit of 0 is the default.
    LimitZeroIsNotSet,
    /// The engine returns ten rows, whatever the limit.
    PagesEndAtTen,
    /// Rows of one millisecond come in the opposite order.
    TiesInReverse,
    /// A cursor is a time, so that other rows of its millisecond are left out.
    CursorForgetsTies,
    CursorIsAnOffset,
    ExcludeIgnored,
    /// With several selectors the condition on the status is forgotten.
    StatusIgnoredInUnion,
    LimitTakesTheOldest,
    TimesForgottenUnderAPath,
    /// `<>` is false if the field is missing, as in SQL.
    NotEqualNeedsTheField,
    UnderTakesDots,
    /// A missing field equals any value.
    MissingFieldsAreEqual,
    FilterWithoutHitsFindsEverything,
    CursorEndsWithItsHandle,
    /// A page continues until it has a row, however many are examined.
    ExaminesWithoutEnd,
    /// A listing counts records outside of `within`.
    SpacesCountOthers,
    SpacesEndAtTheirFirstBoundary,
    ListingEndsAtItsFirstPage,

    // Filters.
    /// LIKE ignores the case of ASCII letters, as SQLite's does.
    LikeFoldsCase,
    /// Like a collation without case.
    EqualityFoldsCase,
    /// The key `a.b` is read as the path from `a` to `b`.
    DottedKeysArePaths,
    /// A key with a quote ends the text of the engine's statement.
    QuotesInKeysAreSyntax,
    /// A missing field is not `IS NULL`.
    NullNeedsTheField,
    /// The field `text` lacks the context.
    TextIsTheTriggerAlone,
    /// Whole numbers over 2^53 are rounded before they are compared.
    LargeNumbersAreFloats,

    // Documents and text.
    /// The document that comes last counts as the later version.
    NewerDocumentIsTheLast,
    PutIgnoresAbsent,
    PutMovesCreatedAt,
    PutKeepsTheSpace,
    /// Ids are compared by a collation without case.
    DocumentIdsAreFolded,
    DocumentsIgnoreWithin,
    /// Each put leaves a memory, as an audit would.
    PutsAreInTheLedger,
    RemoveIgnoresMax,
    RemoveTakesTen,
    /// An id matches all ids that start with it.
    RemoveTakesIdsByPrefix,
    /// The index of words keeps removed documents.
    RemoveLeavesText,
    EmptyCollectionsAreListed,
    PutIgnoresTheRevision,
    PutsArePartlyApplied,
    /// Of two documents with one id the last one is put.
    PutsTakeTheLastOfAnId,
    PutsHaveACap,
    /// Two concurrent removals both report what one of them removed.
    RemovalsBothReport,
    RemovalIgnoresTheFilter,
    /// A put first removes the existing document.
    DroppedPutLosesTheOld,
    DroppedPutsAreHalf,
    DroppedRemovalIsHalf,
    DroppedDocumentsAreEmpty,
    TextNeedsEveryWord,
    TextHitsEndAtTen,
    BackslashesHideWords,
    /// Documents with more of the words come first.
    TextIsRanked,
    /// Only the first page searches for the words.
    TextForgottenBehindACursor,
    TextMatchesWithinWords,
    /// The words of JSON are those of its text, including keys and numbers.
    KeysAreWords,
    CursorForgetsItsText,

    // Recall.
    /// Terms are counted in all spaces, and hits left out afterwards.
    RecallCountsOthers,
    /// A record has no neighbours.
    RecallDropsTheWindow,
    /// Three candidates are ranked.
    RecallCutsCandidates,
    /// An updated record is in no index any more.
    RecallForgetsUpdates,
    RecallKnowsNoLanguage,
    /// The container of a record is always the space above its own.
    RecallKnowsNoContainers,
    RecallKnowsNoSpeakers,
    /// The weights of the caller are not passed on.
    RecallKnowsNoWeights,
    /// `complete`, although a budget has ended the answer.
    RecallSaysItIsComplete,

    // Changes.
    WatchIgnoresWithin,
    /// A watch from a token continues with the changes from now on.
    WatchTokenMeansNow,
    WatchTokensEndWithTheirHandle,
    WatchGoesOnAfterALoss,
    WatchHasAGapBehindItsSnapshot,
    WatchOmitsLeft,
    WatchOmitsRemovals,
    /// A feed looks for records created after the last that it delivered, so it misses late rows.
    WatchLooksForWhatIsNew,
    /// An earlier version is delivered again after the later one.
    WatchTellsTwiceInDisorder,
    WatchEndsWithoutAWord,
    WatchIsReachedTooSoon,
    /// An update is delivered as a store.
    WatchTellsOfStoresAlone,

    // Histories.
    /// As of a time, the version that follows is shown.
    AsOfShowsALaterVersion,
    /// A time for which there is no history is answered as if there were one.
    AsOfTakesAnyTime,
    HistoryShowsWhatWasRemoved,
    HistoryMissesAVersion,
    HistoryNamesTheLastActor,
    /// Versions are restored with the time of the restore.
    RestoredVersionsAreOfNow,
    TheLastVersionAloneIsRestored,
    HistoryEndsAtItsFirstPage,
    /// A namespace that was opened without a history has one.
    HistoryIsKeptUnasked,
    /// The actor of a change is in the metadata of the record.
    ActorsAreInTheRecord,
    /// Each renewal of a lease is a version.
    TransientMembersMakeVersions,

    // Erasures.
    ErasedTextIsFound,
    /// A row of an index by place outlives its record.
    ErasedPlaceIsFound,
    ErasedHistoryStays,
    /// An erased record is treated as if it had never existed, and no call says that it was erased.
    ErasedIsForgotten,
    ErasedKeyIsStored,
    ErasedComesBackUnderAnotherId,
    ErasedDocumentsComeBack,
    /// Each slice reports that it was the last.
    ErasureEndsTooSoon,
    TombstoneQuotesItsRecord,
    /// The hash of an idempotency key is its first bytes.
    TombstoneShowsItsKey,
    WatchOmitsErasures,
    /// Tombstones of another ledger keep out new records, and leave existing ones.
    TombstonesEraseNothing,

    // Expiry.
    ExpiredIsShownUntilSwept,
    ExpiredIsCounted,
    ExpiryIsForgottenByAPut,
    /// A sweep uses the expiry time with which a record was stored.
    SweepTakesWhatWasExtended,
    ExpiredIdBlocksAPut,
    /// A sweep takes no tombstones away.
    TombstonesOfExpiryStay,
    ExpiredKeyIsStored,
    /// Rules are kept in the process that sets them.
    RulesBelongToTheirHandle,

    // Meaning.
    /// An update of the text leaves the vector of the earlier one.
    VectorOutlivesItsText,
    VectorOutlivesItsRecord,
    VectorsOfAnotherModelCount,
    /// The embedding program continues at its position for the other model.
    PlacesOutliveTheModel,
    VectorsAreRounded,
    StaleVectorsAreKept,
    /// Storing a vector makes a revision of its record.
    AVectorIsAnUpdate,
    UnembeddedAreNotCounted,
    /// The nearest records are searched in all spaces.
    MeaningLooksOutside,
    /// If the model fails, nothing is found, and the caller is not told.
    ModelFailuresFindNothing,

    // Between a provider and its server.
    /// The provider connects to another address than the one that it is given.
    GoesAroundTheProxy,
    /// A write without an answer is reported as not done.
    LostAnswersAreNotDone,
    StoresAreRepeated,
    UpdatesAreRepeated,
    RemovalsAreRepeated,
    /// A removal names the documents that it has found by ids, and not by versions.
    RemovalTakesWhatComesBetween,
    BatchGoesOneByOne,
    PutsGoOneByOne,
    RestoreForgetsItsStart,
    /// A write whose answer was lost is reported as not done if the next connection is refused.
    RefusalHidesTheLoss,
    /// The check does not ask the server.
    HealthForgetsTheServer,
    /// A call gives up long before its deadline.
    SlowIsBroken,

    // The plugin.
    /// A model reads all spaces.
    PluginForgetsReadableSpaces,
    PluginIgnoresDryRun,
    PluginIgnoresTheOrder,
    /// An argument whose name a model has made up is left out without a word.
    PluginTakesUnknownArguments,
    /// Each call leaves a memory, as a log would.
    PluginWritesTheLedger,
    /// Stored JSON has other escapes in an answer, as most JSON writers would produce.
    PluginWritesEscapesAnew,
    /// Omissions from an answer are not reported.
    PluginCutsWithoutAWord,
    /// An added document replaces an existing one.
    PluginAddsOver,
    PluginEndsItsProvider,
}
