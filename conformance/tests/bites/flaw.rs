//! The bugs that the suite has to find, each of a class that real systems had.

/// One bug of a [`Broken`](crate::broken::Broken) provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// There is none: what shows that a case fails for the bug and not for the wrapper.
    None,

    // The life cycle.
    /// Calls are answered behind a `shutdown`, as if it had closed nothing.
    ClosedStillAnswers,
    /// What is stored lives as long as the handle that stored it.
    LostOnReopen,
    NamespacesAreShared,
    SecondShutdownFails,
    /// The check stores a probe.
    HealthWrites,
    /// A fixed number of connections serves all calls in the order in which they came.
    LightCallsWaitForHeavyOnes,
    /// The handle that is told remembers it, and the storage does not.
    ReadOnlyForItsHandleAlone,
    /// The answer comes before the storage knows.
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
    /// As a column of a type without trailing spaces.
    SpacesAreTrimmed,
    /// Triggers are parsed and written again, without duplicate keys and with other numbers.
    TriggersAreWrittenAnew,
    /// The status that was added last is not known to the engine.
    ObservedIsCompleted,
    /// An update at the highest revision changes nothing and says that it did.
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
    /// As INSERT ... ON CONFLICT DO NOTHING, whatever is there.
    RestoreCountsConflictsAsEqual,
    /// What comes behind the first conflict is neither restored nor told of.
    RestoreEndsAtAConflict,
    /// A later version is refused as a different one.
    NewerIsAConflict,
    /// A later version gets the next revision of what is there, as an update does.
    NewerCountsByItself,
    DroppedBatchIsHalf,
    /// An update writes the context in a second step.
    DroppedUpdateIsHalf,
    /// A restore writes the contexts in a second step.
    DroppedRestoreIsHalf,
    /// A call that is dropped never gives back what it had taken.
    DroppedReadKeepsItsConnection,
    DroppedInitKeepsItsLock,
    BatchHasACap,
    /// An update reads, changes and writes back, without a look at the revision.
    UpdateLosesRaces,
    UpdateOfMetadataAloneIsDropped,
    /// Whole numbers in the metadata lose what is beyond 2^53.
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
    /// A regex has to match the whole id.
    RegexIsAnchored,
    /// Patterns over 255 bytes don't fit into the engine's column or statement.
    LongPatternsAreRefused,
    /// Open work is looked for among all that is done.
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
    /// The limit counts what is found before the filter.
    LimitBeforeFilter,
    NumbersCompareAsText,
    /// A limit of 0 is the default.
    LimitZeroIsNotSet,
    /// The engine gives ten rows, whatever is asked.
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
    /// `<>` is false where the field is missing, as in SQL.
    NotEqualNeedsTheField,
    UnderTakesDots,
    /// A missing field equals any value.
    MissingFieldsAreEqual,
    FilterWithoutHitsFindsEverything,
    CursorEndsWithItsHandle,
    /// A page goes on until it has a row, however many are examined.
    ExaminesWithoutEnd,
    /// A listing counts what lies outside of `within`.
    SpacesCountOthers,
    SpacesEndAtTheirFirstBoundary,
    ListingEndsAtItsFirstPage,

    // Filters.
    /// LIKE passes over the case of ASCII letters, as that of SQLite does.
    LikeFoldsCase,
    /// As a collation without case.
    EqualityFoldsCase,
    /// The key `a.b` is read as the path from `a` to `b`.
    DottedKeysArePaths,
    /// A key with a quote ends the text of the engine's statement.
    QuotesInKeysAreSyntax,
    /// A missing field is not `IS NULL`.
    NullNeedsTheField,
    /// The field `text` has none of the context.
    TextIsTheTriggerAlone,
    /// Whole numbers over 2^53 are rounded before they are compared.
    LargeNumbersAreFloats,

    // Documents and text.
    /// Whatever comes last is the later version.
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
    /// An id stands for all that start with it.
    RemoveTakesIdsByPrefix,
    /// The index of words keeps what was removed.
    RemoveLeavesText,
    EmptyCollectionsAreListed,
    PutIgnoresTheRevision,
    PutsArePartlyApplied,
    /// Of two documents with one id the last one is put.
    PutsTakeTheLastOfAnId,
    PutsHaveACap,
    /// Two removals at once both tell of what one of them removed.
    RemovalsBothReport,
    RemovalIgnoresTheFilter,
    /// A put removes what is there first.
    DroppedPutLosesTheOld,
    DroppedPutsAreHalf,
    DroppedRemovalIsHalf,
    DroppedDocumentsAreEmpty,
    TextNeedsEveryWord,
    TextHitsEndAtTen,
    BackslashesHideWords,
    /// What has more of the words comes first.
    TextIsRanked,
    /// Only the first page looks for the words.
    TextForgottenBehindACursor,
    TextMatchesWithinWords,
    /// The words of JSON are those of its text, keys and numbers among them.
    KeysAreWords,
    CursorForgetsItsText,

    // Recall.
    /// Terms are counted in all spaces, and hits left out afterwards.
    RecallCountsOthers,
    /// A record has no neighbours.
    RecallDropsTheWindow,
    /// Three candidates are ranked.
    RecallCutsCandidates,
    /// What was updated is in no index any more.
    RecallForgetsUpdates,
    RecallKnowsNoLanguage,
    /// What holds records together is always the space above theirs.
    RecallKnowsNoContainers,
    RecallKnowsNoSpeakers,
    /// The weights of the caller are not passed on.
    RecallKnowsNoWeights,
    /// `complete`, although a budget has ended the answer.
    RecallSaysItIsComplete,

    // Changes.
    WatchIgnoresWithin,
    /// A token goes on with what comes next.
    WatchTokenMeansNow,
    WatchTokensEndWithTheirHandle,
    WatchGoesOnAfterALoss,
    WatchHasAGapBehindItsSnapshot,
    WatchOmitsLeft,
    WatchOmitsRemovals,
    /// A feed asks for what was created behind the last that it gave, so that late rows are lost.
    WatchLooksForWhatIsNew,
    /// An earlier version comes again behind the later one.
    WatchTellsTwiceInDisorder,
    WatchEndsWithoutAWord,
    WatchIsReachedTooSoon,
    /// An update is told as a store.
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
    /// Who made a change stands in the metadata of the record.
    ActorsAreInTheRecord,
    /// Each renewal of a lease is a version.
    TransientMembersMakeVersions,

    // Erasures.
    ErasedTextIsFound,
    /// A row of an index by place outlives its record.
    ErasedPlaceIsFound,
    ErasedHistoryStays,
    /// What was erased is as if it had never been, and nobody is told that it was.
    ErasedIsForgotten,
    ErasedKeyIsStored,
    ErasedComesBackUnderAnotherId,
    ErasedDocumentsComeBack,
    /// Each slice says that it was the last.
    ErasureEndsTooSoon,
    TombstoneQuotesItsRecord,
    /// The hash of an idempotency key is its first bytes.
    TombstoneShowsItsKey,
    WatchOmitsErasures,
    /// Tombstones of another ledger keep out what comes, and leave what is there.
    TombstonesEraseNothing,

    // Expiry.
    ExpiredIsShownUntilSwept,
    ExpiredIsCounted,
    ExpiryIsForgottenByAPut,
    /// A sweep goes by the time with which a record was stored.
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
    /// Who embeds goes on where the other model was.
    PlacesOutliveTheModel,
    VectorsAreRounded,
    StaleVectorsAreKept,
    /// To keep a vector is a revision of its record.
    AVectorIsAnUpdate,
    UnembeddedAreNotCounted,
    /// The nearest are looked for in all spaces.
    MeaningLooksOutside,
    /// Where the model fails nothing is found, and nobody is told.
    ModelFailuresFindNothing,

    // Between a provider and its server.
    /// The provider connects to another address than the one that it is given.
    GoesAroundTheProxy,
    /// A write without an answer is said not to be done.
    LostAnswersAreNotDone,
    StoresAreRepeated,
    UpdatesAreRepeated,
    RemovalsAreRepeated,
    /// A removal names what it has found by ids, and not by versions.
    RemovalTakesWhatComesBetween,
    BatchGoesOneByOne,
    PutsGoOneByOne,
    RestoreForgetsItsStart,
    /// A write whose answer was lost is said not to be done, where the next connection is refused.
    RefusalHidesTheLoss,
    /// The check asks nobody.
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
    /// Stored JSON has other escapes in an answer, as most writers of JSON would give it.
    PluginWritesEscapesAnew,
    /// What was left out of an answer is not told.
    PluginCutsWithoutAWord,
    /// A document that is added takes the place of one that is there.
    PluginAddsOver,
    PluginEndsItsProvider,
}
